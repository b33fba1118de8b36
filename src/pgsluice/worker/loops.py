"""Threads and event loops that call one another."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def call_soon(loop: asyncio.AbstractEventLoop, step: Callable[..., object], *args: object) -> None:
    """Run a step in a loop of another thread; do nothing when the loop has ended, as nobody waits there then."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(step, *args)


def run_in_thread(name: str, step: Callable[..., Result], *args: object) -> Future[Result]:
    """Run a step in a daemon thread of its own.

    A thread of a pool would keep the process from ending while the step waits for the server.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # from now on nothing cancels it

    def run() -> None:
        try:
            result = step(*args)
        except BaseException as error:  # noqa: BLE001 - raised again by the future
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
