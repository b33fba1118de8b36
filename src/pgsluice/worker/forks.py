"""Signals in processes that handlers start."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType


def ignore(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal; unlike with SIG_IGN, programs that handlers start have the default for it."""


def default_in_forks(is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Let forks of this process have the default dispositions of SIGTERM and SIGINT, and no wakeup descriptor.

    Args:
        is_wanted: Asked in each fork, as this cannot be undone.
    """

    masks = threading.local()

    def block() -> None:
        # A signal before the reset would be handled by what is reset.
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def reset() -> None:
        if is_wanted():
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
        unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=reset)
