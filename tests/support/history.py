"""Histories of operations, recorded by processes and checked afterwards.

Each operation is an `invoke` and then `ok`, `fail` (no effect) or `info` (unknown outcome). An
operation took effect between the two; one without an end may have taken effect at any time since,
or never.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NEVER = float("inf")


def append_line(descriptor: int, line: object) -> None:
    """Append a line to a file that several processes append to.

    A write across pages is cut off when its process is killed. So each line also begins with a
    newline: what is cut off is a line of its own.
    """
    os.write(descriptor, f"\n{json.dumps(line)}\n".encode())


@dataclass
class Operation:
    """An invocation and its response; times in seconds of the machine's monotonic clock."""

    process: str
    name: str
    asked: Any
    invoked: float
    ended: float = NEVER
    outcome: str = "info"
    answer: Any = None


class Log:
    """An append-only file shared by processes: each line is one write, and survives its writer."""

    def __init__(self, path: Path, process: str) -> None:
        self._process = process
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, kind: str, name: str, what: object = None) -> None:
        """Write a line: `what` holds the arguments of an `invoke`, or the response."""
        line = [time.monotonic(), self._process, kind, name, what]
        append_line(self._file, line)


def operations(path: Path) -> list[Operation]:
    """Return the operations in the order of their invocation."""
    found: list[Operation] = []
    open_of: dict[str, Operation] = {}
    for at, process, kind, name, what in sorted(whole_lines(path), key=lambda line: line[0]):
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


def whole_lines(path: Path) -> Iterator[Any]:
    """Yield the lines of `append_line`, without those that a killed process did not finish."""
    for line in path.read_text().splitlines():
        if line:
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)
