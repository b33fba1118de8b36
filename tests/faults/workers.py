"""Worker processes of a test, and the history that their handlers write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from support import wait_until
from support.history import whole_lines
from support.processes import without_server

TESTS = Path(__file__).parents[1]
QUEUES = ("threads", "loop", "processes", "hungry", "held", "plain")


class Workers:
    """Processes of `pgsluice worker run`, by default with faults.app, and their history."""

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        queues: str,
        options: tuple[str, ...] = (),
        app: str = "faults.app:app",
    ) -> None:
        self._url = url
        self._folder = folder
        self._history = folder / "history"
        self._app = app
        self._arguments = ("--queues", queues, *options)
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def start(self, *, url: str | None = None) -> subprocess.Popen[bytes]:
        """Start another process."""
        environ = without_server()
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-c", "from pgsluice.cli.main import main; main()"),
                    *("worker", "run", self._app, *self._arguments),
                ],
                env=environ
                | {
                    "PGSLUICE_DSN": url or self._url,
                    "FAULTS_HISTORY": str(self._history),
                    "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
                },
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def log(self) -> str:
        """Return the log of the workers."""
        return (self._folder / "log").read_text(encoding="utf-8")

    def lines(self, word: str | None = None) -> list[dict[str, Any]]:
        """Return the complete lines of the history, in order."""
        if not self._history.exists():
            return []
        found = list(whole_lines(self._history))
        return [line for line in found if word in (None, line["word"])]

    def count(self, word: str) -> Counter[int]:
        """Return the number of lines with this word, by message."""
        return Counter(line["n"] for line in self.lines(word))

    def wait_for(self, word: str, n: int, times: int = 1, *, deadline_s: float = 30.0) -> None:
        """Wait until the history has a word for a message a number of times."""
        self.wait_until(
            lambda: self.count(word)[n] >= times, f"{word} of {n}, {times} times", deadline_s
        )

    def wait_until(
        self, condition: Callable[[], bool], what: str, deadline_s: float = 30.0
    ) -> None:
        """Wait for a condition; fail with the history and the log."""
        try:
            wait_until(condition, what, deadline_s)
        except AssertionError as error:
            error.add_note(f"{self.lines()}\n{self.log()}")
            raise
