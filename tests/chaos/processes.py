"""Processes of a run, started as `python -m MODULE ARGUMENT…` in the folder of the tests."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


class Processes:
    """Processes of a run; `errors` is the file of their standard error."""

    def __init__(self, errors: Path) -> None:
        self._errors = errors
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, module: str, *arguments: object) -> subprocess.Popen[bytes]:
        """Start a program."""
        with self._errors.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)], cwd=TESTS, stderr=errors
            )
        self._started.append(process)
        return process

    def require_end(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for a process; fail unless it exited without an error or was killed."""
        require_end(process.wait(), self._errors)

    def kill(self) -> None:
        """Kill all running processes."""
        for process in self._started:
            process.kill()
            process.wait()


def require_end(code: int, errors: Path) -> None:
    """Fail unless a process exited without an error or was killed, and none wrote an error."""
    assert code in (0, -signal.SIGKILL), errors.read_text()
    text = errors.read_text()
    assert not text, text
