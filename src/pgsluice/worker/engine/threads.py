"""Threads for handlers that are no coroutines, and for whatever else would hold up the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from pgsluice.worker.forks import end_fork
from pgsluice.worker.loops import call_soon

_numbers = itertools.count(1)

# What is to be called, with which arguments, in which context, and who waits for it; None: nothing any more.
_Work = tuple[
    contextvars.Context,
    Callable[..., Any],
    tuple[Any, ...],
    "asyncio.Future[tuple[Any, BaseException | None]]",
]


class Threads:
    """As many threads as are needed at once; those that are idle are used again.

    Not an executor of the standard library: a thread that hangs must neither keep others from starting nor the process
    from settlement. One that was left to itself is counted until it returns.
    """

    def __init__(self, on_hung: Callable[[], None] = lambda: None) -> None:
        """Prepare them, in the running event loop; `on_hung` is called when one more is left to itself."""
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Thread] = []
        # Each with a future that is done when it returns, and since when, on `time.monotonic`.
        self._left: dict[_Thread, tuple[asyncio.Future[None], float]] = {}
        self._on_hung = on_hung
        self._is_closed = False

    @property
    def hung(self) -> int:
        """How many threads run something that nobody waits for any more."""
        return len(self._left)

    @property
    def hung_s(self) -> float:
        """For how long the first of them has hung, seconds."""
        return time.monotonic() - min(s for _, s in self._left.values()) if self._left else 0.0

    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        on_left: Callable[[asyncio.Future[None]], None] = lambda _returned: None,
    ) -> tuple[Any, BaseException | None]:
        """Call a function in a thread; what it returned, or what it raised, whatever that is.

        Cancelled, it returns at once and leaves the thread to itself.

        Args:
            function: What is called.
            args: With what.
            on_left: Called when the thread is left to itself, with a future that is done when it returns.
        """
        thread = self._idle.pop() if self._idle else _Thread(self)
        waiter: asyncio.Future[tuple[Any, BaseException | None]] = self._loop.create_future()
        thread.work.put((contextvars.copy_context(), function, args, waiter))
        try:
            return await waiter
        except asyncio.CancelledError:
            # Not of the function: what it raises, it returns. It may have ended at this very moment, though.
            if thread not in self._idle:
                returned: asyncio.Future[None] = self._loop.create_future()
                self._left[thread] = returned, time.monotonic()
                on_left(returned)
                self._on_hung()
            raise

    def close(self) -> None:
        """Let the idle threads end, and the others when they return."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().work.put(None)

    def finished(
        self,
        thread: _Thread,
        waiter: asyncio.Future[tuple[Any, BaseException | None]],
        result: tuple[Any, BaseException | None],
    ) -> None:
        """Take in what a thread came to; called by it."""
        call_soon(self._loop, self._take, thread, waiter, result)

    def _take(
        self,
        thread: _Thread,
        waiter: asyncio.Future[tuple[Any, BaseException | None]],
        result: tuple[Any, BaseException | None],
    ) -> None:
        left = self._left.pop(thread, None)
        if self._is_closed:
            thread.work.put(None)
        else:
            self._idle.append(thread)
        if not waiter.done():
            waiter.set_result(result)
        elif left is not None and not left[0].done():
            left[0].set_result(None)


class _Thread(threading.Thread):
    """One of them; a daemon, so that the process can end while it hangs."""

    def __init__(self, threads: Threads) -> None:
        super().__init__(name=f"pgsluice-handler-{next(_numbers)}", daemon=True)
        self._threads = threads
        self.work: SimpleQueue[_Work | None] = SimpleQueue()
        self.start()

    def run(self) -> None:
        while (work := self.work.get()) is not None:
            context, function, args, waiter = work
            result: tuple[Any, BaseException | None]
            pid = os.getpid()
            try:
                result = (context.run(function, *args), None)
            except BaseException as error:  # noqa: BLE001 - also a SystemExit is an answer, not an end
                result = (None, error)
            end_fork(pid, result[1])
            self._threads.finished(self, waiter, result)
            del work, context, function, args, waiter, result
