"""Tally of numbered messages, and counters that other processes read from files."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path


class Numbers:
    """Count each number from a first one once; memory is that of the numbers out of order.

    Attributes:
        handled: Numbers counted.
        redelivered: Numbers that were counted before.
    """

    def __init__(self, first: int) -> None:
        """Count from a number on."""
        self.handled = self.redelivered = 0
        self._first = self._below = first
        self._above: set[int] = set()

    def add(self, numbers: Iterable[int]) -> None:
        """Count numbers; not those below the first, which a slice that was killed may have left."""
        below, above = self._below, self._above
        for number in numbers:
            if number == below:
                below += 1
                while above and below in above:
                    above.remove(below)
                    below += 1
            elif number < below or number in above:
                self.redelivered += number >= self._first
                continue
            else:
                above.add(number)
            self.handled += 1
        self._below = below


class Counter:
    """Two numbers in a file: one process writes them, others read them."""

    def __init__(self, path: Path) -> None:
        """Use a file; the first `write` creates it."""
        self._path = path
        self._lock = threading.Lock()

    def write(self, done: int, redelivered: int = 0) -> None:
        """Replace the numbers."""
        with self._lock:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.pwrite(file, f"{done:20} {redelivered:20}\n".encode(), 0)
            finally:
                os.close(file)

    @property
    def exists(self) -> bool:
        """True if numbers were written."""
        return self._path.exists()

    def read(self) -> tuple[int, int]:
        """Return the numbers, or zeros if none were written."""
        try:
            done, redelivered = self._path.read_text(encoding="ascii").split()
        except (FileNotFoundError, ValueError):
            return 0, 0
        return int(done), int(redelivered)
