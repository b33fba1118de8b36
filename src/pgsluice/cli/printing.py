"""The only module of the command line that writes to the terminal: see `pgsluice.printable`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from pgsluice.printable import printable, printable_json, printable_metrics


def echo(text: object, *, err: bool = False) -> None:
    """Print one line; line breaks and other control characters in it are escaped."""
    click.echo(printable(str(text)), err=err)


def echo_lines(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a text of our own that has several lines."""
    click.echo(printable(text, keep="\n\t"), nl=nl, err=err)


def echo_json(value: Any, default: Callable[[Any], Any] | None = None) -> None:
    """Print a value as JSON on one line."""
    click.echo(printable_json(value, default))


def echo_metrics(text: str) -> None:
    """Print metrics in Prometheus' text format."""
    click.echo(printable_metrics(text), nl=False)


def cell(value: object) -> Text:
    """Return one line of a table, without markup: square brackets in a name are no style."""
    return Text(printable(str(value)))


class Terminal(Console):
    """Console that writes no control characters but line breaks, wherever a text comes from."""

    def say(self, *parts: str | Text) -> None:
        """Print one line of texts, without markup."""
        whole = Text()
        for part in parts:
            whole.append_text(part if isinstance(part, Text) else cell(part))
        self.print(whole)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of a text or table."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text, keep="\n"), segment.style)
