"""The figures on pages of the dashboard: tiles, and tables by their headings."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_UNITS_S = {"y": 86_400 * 365, "d": 86_400, "h": 3600, "min": 60, "s": 1}
_DURATION = re.compile(r"([\d.]+) (y|d|h|min|s)\b")


class Page(HTMLParser):
    """A page.

    Attributes:
        tiles: The text of each tile by its label.
        tables: The rows of each table by the label of its first column: the text by the label of the column.
        text: All text.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tiles: dict[str, str] = {}
        self.tables: dict[str, list[dict[str, str]]] = {}
        self._pieces: list[str] = []
        self._cell: list[str] | None = None
        self._label = ""
        self._heads: list[str] = []
        self._rows: list[list[str]] = []
        self._in_head = self._is_small = False
        self.feed(html)
        self.text = " ".join("".join(self._pieces).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("dt", "dd", "th", "td"):
            self._cell = []
        elif tag == "table":
            self._heads, self._rows = [], []
        elif tag == "thead":
            self._in_head = True
        elif tag == "tr" and not self._in_head:
            self._rows.append([])
        elif tag == "small":
            self._is_small = True

    def handle_data(self, data: str) -> None:
        self._pieces.append(data)
        if self._cell is not None and not self._is_small:
            self._cell.append(data)

    def handle_endtag(self, tag: str) -> None:
        text = " ".join("".join(self._cell or ()).split())
        if tag == "dt":
            self._label = text
        elif tag == "dd":
            self.tiles[self._label] = text
        elif tag in ("th", "td"):
            (self._heads if self._in_head else self._rows[-1]).append(text)
        elif tag == "thead":
            self._in_head = False
        elif tag == "table" and self._heads:
            self.tables[self._heads[0]] = [
                dict(zip(self._heads, row, strict=False)) for row in self._rows
            ]
        elif tag == "small":
            self._is_small = False
        if tag in ("dt", "dd", "th", "td"):
            self._cell = None


def number(text: str) -> float | None:
    """Return a number; None for a dash."""
    return None if text == "\u2013" else float(text.replace("\u202f", "").removesuffix(" or more"))


def duration_s(text: str) -> tuple[float, float] | None:
    """Return a duration, and its error: the smallest unit that is shown; None for a dash."""
    if text == "\u2013":
        return None
    found = _DURATION.findall(text)
    assert found, text
    return sum(float(n) * _UNITS_S[unit] for n, unit in found), _UNITS_S[found[-1][1]]
