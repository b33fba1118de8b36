"""How a process is told to end: first to finish what it has begun, then at once."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType

from pgsluice.worker.forks import default_in_forks, ignore

_log = logging.getLogger(__name__)


class Level(IntEnum):
    """How much of it is wanted.

    Attributes:
        NOT_AT_ALL: It is to go on.
        FINISH: It is to claim nothing more, and to finish what it has begun.
        AT_ONCE: It is to end now.
    """

    NOT_AT_ALL = 0
    FINISH = 1
    AT_ONCE = 2


class Shutdown:
    """Told by signals, by a pipe, by a clock, from any thread; it only grows."""

    def __init__(self, grace_s: float) -> None:
        """Want nothing yet.

        Args:
            grace_s: How long finishing may take until the end is wanted at once, seconds.
        """
        self._grace_s = grace_s
        self._level = Level.NOT_AT_ALL
        self._watchers: list[Callable[[], object]] = []
        self._lock = threading.Lock()
        self._signals = 0
        self.event = threading.Event()  # set as soon as an end is wanted

    @property
    def level(self) -> Level:
        """What is wanted now."""
        return self._level

    def watch(self, watcher: Callable[[], object]) -> None:
        """Call this at each change, in whatever thread it comes; at once if there was one."""
        with self._lock:
            self._watchers.append(watcher)
            level = self._level
        if level:
            watcher()

    def request(self, level: Level, why: str) -> None:
        """Want at least this much."""
        with self._lock:
            if level <= self._level:
                return
            self._level = level
            watchers = list(self._watchers)
        self.event.set()
        if level is Level.FINISH:
            _log.info("%s: finishing what has begun, for %g s at most", why, self._grace_s)
            timer = threading.Timer(
                self._grace_s,
                self.request,
                [Level.AT_ONCE, f"not finished after {self._grace_s:g} s"],
            )
            timer.daemon = True
            timer.start()
        else:
            _log.warning("%s: ending at once", why)
        for watcher in watchers:
            watcher()

    @contextmanager
    def on_signals(self, *, interrupts: bool = True) -> Iterator[None]:
        """Let the first SIGTERM or SIGINT want the one, and the second the other.

        Args:
            interrupts: Whether SIGINT counts. Ctrl-C goes to all processes of a terminal: where one of them is told by
                another, it does not.
        """

        def count(number: int, _frame: FrameType | None) -> None:
            self._signals += 1
            level = Level(min(self._signals, Level.AT_ONCE))
            # In a thread: this one may be in the middle of writing a line, and cannot begin another.
            threading.Thread(
                target=self.request, args=[level, signal.Signals(number).name], daemon=True
            ).start()

        is_on = True
        default_in_forks(lambda: is_on)
        before = {
            signal.SIGTERM: signal.signal(signal.SIGTERM, count),
            signal.SIGINT: signal.signal(signal.SIGINT, count if interrupts else ignore),
        }
        try:
            yield
        finally:
            is_on = False
            for number, handler in before.items():
                signal.signal(number, handler)
