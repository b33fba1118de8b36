"""What is shown while the demo works: bars on a terminal, one line per step elsewhere."""

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


class Step:
    """One line of the display.

    Use it as a context: it starts when it is made and is done at the end of the block; when the block
    raises, it stays unfinished.
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
        """Move the bar, and change the words after it when there are new ones."""
        if note is not None:
            self._note = note
        self._display.progress.update(self._task, completed=completed, total=total, note=self._note)

    def note(self, words: str) -> None:
        """Change the words after the bar."""
        self._note = words
        self._display.progress.update(self._task, note=words)

    def done(self) -> None:
        """Fill the bar; off a terminal, print the line."""
        progress = self._display.progress
        progress.update(self._task, completed=1, total=1)
        progress.stop_task(self._task)
        if not self._display.live:
            elapsed_s = time.monotonic() - self._began
            self._display.say(f"{self._title:<28} {elapsed_s:6.1f} s  {self._note}".rstrip())


class Display:
    """The progress of a run, on standard error.

    Args:
        console: Where to; by default standard error.
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

    def step(self, title: str, *, total: float | None = None) -> Step:
        """Begin a step; without a total its bar only says that something happens."""
        return Step(self, title, total)

    def say(self, words: str) -> None:
        """Print one line, above the bars when there are any."""
        self.progress.console.print(words, markup=False, soft_wrap=True)
