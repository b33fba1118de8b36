"""Shutdown of a process: first graceful, then hard."""

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
    """Requested shutdown level.

    Attributes:
        NOT_AT_ALL: Keep running.
        FINISH: Graceful shutdown: stop claiming and drain running handlers.
        AT_ONCE: Hard stop.
    """

    NOT_AT_ALL = 0
    FINISH = 1
    AT_ONCE = 2


class Shutdown:
    """Shutdown requests by signals, a pipe or a timer; the level only rises. Thread-safe."""

    def __init__(self, grace_s: float) -> None:
        """Start without a request.

        Args:
            grace_s: Grace period in seconds between the graceful shutdown and the hard stop.
        """
        self._grace_s = grace_s
        self._level = Level.NOT_AT_ALL
        self._watchers: list[Callable[[], object]] = []
        self._lock = threading.Lock()
        self._signals = 0
        self.event = threading.Event()  # set by the first request

    @property
    def level(self) -> Level:
        """The requested level."""
        return self._level

    def watch(self, watcher: Callable[[], object]) -> None:
        """Call `watcher` on each change, in the requesting thread; immediately if there was a request."""
        with self._lock:
            self._watchers.append(watcher)
            level = self._level
        if level:
            watcher()

    def request(self, level: Level, why: str) -> None:
        """Raise the level; lower levels are ignored."""
        with self._lock:
            if level <= self._level:
                return
            self._level = level
            watchers = list(self._watchers)
        self.event.set()
        if level is Level.FINISH:
            _log.info('graceful shutdown reason="%s" grace_s=%g', why, self._grace_s)
            timer = threading.Timer(
                self._grace_s,
                self.request,
                [Level.AT_ONCE, f"grace period of {self._grace_s:g} s exceeded"],
            )
            timer.daemon = True
            timer.start()
        else:
            _log.warning('hard stop reason="%s"', why)
        for watcher in watchers:
            watcher()

    @contextmanager
    def on_signals(self, *, interrupts: bool = True) -> Iterator[None]:
        """Shut down gracefully on the first SIGTERM or SIGINT, hard on the second.

        Args:
            interrupts: Handle SIGINT. Ctrl-C signals all processes of a terminal; those with a supervisor ignore it.
        """

        def count(number: int, _frame: FrameType | None) -> None:
            self._signals += 1
            level = Level(min(self._signals, Level.AT_ONCE))
            # In a thread: this one may be interrupted in the middle of writing a log line.
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
