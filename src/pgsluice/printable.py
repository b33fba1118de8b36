"""Escape what a terminal would act upon: control characters, and characters that hide or reorder text.

Names, payloads and error texts come from others. Printed raw, an escape sequence clears a screen or sets a title, and a
line break or a change of direction forges a line of output.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

# Superset of all that is escaped; only characters that match are looked at.
_SUSPECT = re.compile(r"[^ -~]")
_SHOWN = ("Zs", "Co")  # wide spaces and private characters, which are not printable for Python
_INDENT = "    "


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text with control, format and separator characters as escapes of Python: `\x1b`, `\n`, `\u202e`.

    Args:
        text: Any text.
        keep: Characters that stay as they are, such as a line break in a text of several lines.
    """
    return _escaped(text, keep, lambda char: char.encode("unicode_escape").decode())


def printable_block(text: str) -> str:
    """Return a text of several lines, where each line but the first is indented: it cannot pass for another record."""
    return f"\n{_INDENT}".join(printable(line, keep="\t") for line in text.split("\n"))


def printable_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    r"""Return JSON on one line; of the other characters than ASCII, those that `printable` escapes are `\uXXXX`."""
    text = json.dumps(value, ensure_ascii=False, default=default)
    return _escaped(text, "", lambda char: json.dumps(char)[1:-1])


def printable_metrics(text: str) -> str:
    """Return metrics in Prometheus' text format, in whose label values a backslash is written twice."""
    return _escaped(text, "\n", lambda char: "\\" + char.encode("unicode_escape").decode())


def print_warning(text: str) -> None:
    """Print one line on standard error, for a process whose logs are not ours, such as Spark's driver."""
    print(printable(f"pgsluice: {text}"), file=sys.stderr)


class PrintableFormatter(logging.Formatter):
    """Formatter of log lines whose further lines are indented, and without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        return printable_block(super().format(record))


def _escaped(text: str, keep: str, escape: Callable[[str], str]) -> str:
    def replaced(found: re.Match[str]) -> str:
        char = found[0]
        is_shown = char.isprintable() or char in keep or unicodedata.category(char) in _SHOWN
        return char if is_shown else escape(char)

    return text if text.isprintable() else _SUSPECT.sub(replaced, text)
