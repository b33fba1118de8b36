"""Stop long-running commands on a signal."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_LOOK_S = 0.1


class _Stop(threading.Event):
    """Event that a signal handler may set at any time.

    The system may deliver a signal to any thread, and Python then runs the handler in the main thread once that one
    wakes up: so no wait is long. The handler sets no lock, which the main thread may hold.
    """

    _is_signaled = False

    def signal(self) -> None:
        """Set the event, in a signal handler."""
        self._is_signaled = True

    def is_set(self) -> bool:
        return self._is_signaled or super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        end_s = float("inf") if timeout is None else time.monotonic() + timeout
        while not self.is_set() and (left_s := end_s - time.monotonic()) > 0:
            super().wait(min(left_s, _LOOK_S))
        return self.is_set()


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT (Ctrl-C) and SIGTERM (service managers) set."""
    stop = _Stop()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.signal()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupt_on_termination() -> Iterator[None]:
    """Treat SIGTERM, which service managers send, like Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def mute_py4j() -> None:
    """Keep py4j from writing lost connections to standard error.

    It calls `logging.error()`, which adds a handler if the root logger has none.
    """
    logging.getLogger().addHandler(logging.NullHandler())
