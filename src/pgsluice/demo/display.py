"""The progress display: bars on a terminal, one line per step elsewhere."""

from __future__ import annotations

import time
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)


class DisplayLine:
    """One line of the progress display.

    A context manager: the step starts when it is created and is done at the end of the block; if the
    block raises, it stays unfinished.
    """

    def __init__(self, display: Display, title: str, total: float | None) -> None:
        self._display = display
        self._title = title
        self._began = time.monotonic()
        self._note = ""
        self._task: TaskID = display.progress.add_task(title, total=total, note="")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.done()

    def show(self, completed: float, total: float | None = None, note: str | None = None) -> None:
        """Move the bar, and replace the note after it if one is given."""
        if note is not None:
            self._note = note
        self._display.progress.update(self._task, completed=completed, total=total, note=self._note)

    def note(self, text: str) -> None:
        """Replace the note after the bar."""
        self._note = text
        self._display.progress.update(self._task, note=text)

    def done(self) -> None:
        """Fill the bar; without a terminal, print the line."""
        progress = self._display.progress
        progress.update(self._task, completed=1, total=1)
        progress.stop_task(self._task)
        if not self._display.live:
            elapsed_s = time.monotonic() - self._began
            self._display.print_line(f"{self._title:<28} {elapsed_s:6.1f} s  {self._note}".rstrip())


class Display:
    """The progress of a run, on standard error.

    Args:
        console: Output; standard error by default.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.live = self.console.is_terminal
        self.progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[note]}"),
            console=self.console,
            disable=not self.live,
        )

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.progress.stop()

    def step(self, title: str, *, total: float | None = None) -> DisplayLine:
        """Start a step; without a total its bar only indicates activity."""
        return DisplayLine(self, title, total)

    def print_line(self, text: str) -> None:
        """Print one line, above the bars if there are any."""
        self.progress.console.print(text, markup=False, soft_wrap=True)
