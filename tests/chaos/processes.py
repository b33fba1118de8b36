"""Processes of a run: started as `python -m MODULE ARGUMENT…` from the folder of the tests, ended by signals only."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


class Processes:
    """Processes that a run has started; `errors` is the file that receives their standard error."""

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
        """Wait for the end of a process; fail unless it ended by itself or was killed, without an error."""
        require_end(process.wait(), self._errors)

    def kill(self) -> None:
        """Kill all that still run."""
        for process in self._started:
            process.kill()
            process.wait()


def require_end(code: int, errors: Path) -> None:
    """Fail unless a process ended by itself or was killed, and none wrote an error."""
    assert code in (0, -signal.SIGKILL), errors.read_text()
    text = errors.read_text()
    assert not text, text
