"""Forks of a process that runs handlers: their signals, their sockets, their end."""

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


class _HasSocket(Protocol):
    def fileno(self) -> int: ...


# Of the process, as is what a fork inherits. Entries go with their objects.
_sockets: weakref.WeakSet[_HasSocket] = weakref.WeakSet()
_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, int] = weakref.WeakKeyDictionary()


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


def close_in_forks(owner: _HasSocket) -> None:
    """Close a socket in forks of this process.

    Else a fork that outlives the process would keep its session with its locks, or its port; and a fork that uses the
    connection would write into the session of this process.
    """
    _sockets.add(owner)


def end_in_forks(loop: asyncio.AbstractEventLoop) -> None:
    """End a fork that this thread makes in an event loop when it gives control back to the loop."""
    _loops[loop] = threading.get_ident()


def end_fork(pid: int, error: BaseException | None = None) -> None:
    """End this process if it is a fork; the caller is to return to the worker, which runs in another process.

    It ends without cleanup, which is for the other process to do. The exit code is 0, that of a `SystemExit`, or 1 with
    the error on standard error.

    Args:
        pid: The process that the caller was called in.
        error: What the caller is about to raise.
    """
    if os.getpid() != pid:
        _exit(error)


def _exit(error: BaseException | None = None) -> NoReturn:
    code = 0
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        code = error.code or 0
    elif error is not None:
        # Not by way of sys.stderr, whose lock another thread may have held at the fork.
        os.write(2, "".join(traceback.format_exception(error)).encode())
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def _in_fork() -> None:
    if _sockets:
        # One whose other end is closed: what reads or writes finds the connection closed.
        dead, other = socket.socketpair()
        other.close()
        for owner in list(_sockets):
            with contextlib.suppress(OSError, psycopg.Error):  # it is closed already
                os.dup2(dead.fileno(), owner.fileno(), inheritable=False)
        dead.close()
    for loop, thread in list(_loops.items()):
        if thread == threading.get_ident() and not loop.is_closed():
            # Steps of other handlers that are ready are the other process's to run. Event loops that are not asyncio's
            # may run some of them first.
            ready = getattr(loop, "_ready", None)
            if ready is not None:
                ready.clear()
            loop.call_soon(_exit, RuntimeError("a fork of a handler cannot await anything"))


os.register_at_fork(after_in_child=_in_fork)
