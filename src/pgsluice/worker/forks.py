"""Forks of a process that runs handlers: their signals, sockets and exit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from types import FrameType
from typing import NoReturn, Protocol

import psycopg

from pgsluice.printable import printable_block


class _HasSocket(Protocol):
    def fileno(self) -> int: ...


# Process-wide, like all that a fork inherits. Weak references.
_sockets: weakref.WeakSet[_HasSocket] = weakref.WeakSet()
_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, int] = weakref.WeakKeyDictionary()


def ignore(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal; unlike with SIG_IGN, programs started by handlers get the default disposition."""


def default_in_forks(is_enabled: Callable[[], bool] = lambda: True) -> None:
    """Reset SIGTERM and SIGINT to their default dispositions in forks, without a wakeup descriptor.

    Args:
        is_enabled: Called in each fork, as the hook cannot be removed.
    """

    masks = threading.local()

    def block() -> None:
        # Else a signal before the reset would run the inherited handler.
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def reset() -> None:
        if is_enabled():
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
        unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=reset)


def close_in_forks(owner: _HasSocket) -> None:
    """Close a socket in forks of this process.

    Otherwise a fork that outlives the process would keep its session and locks, or its port; and a fork that uses the
    connection would write into the session of this process.
    """
    _sockets.add(owner)


def end_in_forks(loop: asyncio.AbstractEventLoop) -> None:
    """End forks that this thread makes in an event loop when they return control to the loop."""
    _loops[loop] = threading.get_ident()


class _Process:
    """The id of this process; os.getpid is a system call, and handlers are called many times a millisecond."""

    pid = os.getpid()


def _update_pid() -> None:
    _Process.pid = os.getpid()


os.register_at_fork(after_in_child=_update_pid)


def process_id() -> int:
    """Return the id of this process, also in a fork."""
    return _Process.pid


def end_fork(pid: int, error: BaseException | None = None) -> None:
    """Exit if this process is a fork: the caller must not return to the worker, which runs in the parent.

    It exits without cleanup, which is the parent's. The exit code is 0, that of a `SystemExit`, or 1 with the error on
    standard error.

    Args:
        pid: Process id at the start of the call.
        error: The exception that the caller is about to raise.
    """
    if _Process.pid != pid:
        _exit(error)


def _exit(error: BaseException | None = None) -> NoReturn:
    code = 0
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        code = error.code or 0
    elif error is not None:
        # Not through sys.stderr, whose lock another thread may have held at the fork.
        trace = "".join(traceback.format_exception(error)).rstrip()
        os.write(2, f"{printable_block(trace)}\n".encode())
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def _in_fork() -> None:
    if _sockets:
        # Replace by a socket whose peer is closed: reads and writes fail.
        dead, other = socket.socketpair()
        other.close()
        for owner in list(_sockets):
            with contextlib.suppress(OSError, psycopg.Error):  # already closed
                os.dup2(dead.fileno(), owner.fileno(), inheritable=False)
        dead.close()
    for loop, thread in list(_loops.items()):
        if thread == threading.get_ident() and not loop.is_closed():
            # Ready steps of other handlers are the parent's; event loops other than asyncio's may run some first.
            ready = getattr(loop, "_ready", None)
            if ready is not None:
                ready.clear()
            loop.call_soon(_exit, RuntimeError("await is not supported in a fork of a handler"))


os.register_at_fork(after_in_child=_in_fork)
