"""Calls between threads and event loops."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def call_soon(loop: asyncio.AbstractEventLoop, step: Callable[..., object], *args: object) -> None:
    """Schedule a step in another thread's event loop; do nothing if the loop is closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(step, *args)


def run_in_thread(name: str, step: Callable[..., Result], *args: object) -> Future[Result]:
    """Run a step in a new daemon thread.

    A thread of a pool would block process exit while the step waits for the server.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # not cancellable from now on

    def run() -> None:
        try:
            result = step(*args)
        except BaseException as error:  # noqa: BLE001 - re-raised by the future
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
