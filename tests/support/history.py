"""Histories: what processes write down while they work, and what is read from it when they are done.

Each operation is an `invoke` and then `ok`, `fail` (it had no effect) or `info` (nobody knows). An operation took effect
at some moment between the two; one without an end may have taken effect at any time since, or never.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NEVER = float("inf")


@dataclass
class Operation:
    """What was asked for and what was answered; times in seconds of the machine's monotonic clock."""

    process: str
    name: str
    asked: Any
    invoked: float
    ended: float = NEVER
    outcome: str = "info"
    answer: Any = None


class Log:
    """A file that processes append to, a line in one write: what is written outlives the writer."""

    def __init__(self, path: Path, process: str) -> None:
        self._process = process
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, kind: str, name: str, what: object = None) -> None:
        """Add what is asked for with an `invoke`, what was answered with its end."""
        line = [time.monotonic(), self._process, kind, name, what]
        os.write(self._file, (json.dumps(line) + "\n").encode())


def operations(path: Path) -> list[Operation]:
    """What was done, in the order in which it was begun."""
    found: list[Operation] = []
    open_of: dict[str, Operation] = {}
    # The last line may be in the making.
    lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    for at, process, kind, name, what in sorted(map(json.loads, lines), key=lambda line: line[0]):
        if kind == "invoke":
            open_of[process] = Operation(process, name, what, at)
            found.append(open_of[process])
        else:
            operation = open_of.pop(process)
            operation.outcome = kind
            if kind != "info":
                operation.ended = at
            operation.answer = what
    return found
