"""Thread pool for `def` handlers and other blocking calls."""

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

from pgsluice.errors import ConfigurationError
from pgsluice.worker.forks import end_fork
from pgsluice.worker.loops import call_soon

_numbers = itertools.count(1)

# Deadline for the end of idle threads.
_END_S = 2.0
# Context, function, arguments and the future of the result.
_Work = tuple[
    contextvars.Context,
    Callable[..., Any],
    tuple[Any, ...],
    "asyncio.Future[tuple[Any, BaseException | None]]",
]


class Threads:
    """A pool that grows on demand; idle threads are reused.

    Unlike `ThreadPoolExecutor`, a hanging thread blocks neither other work nor process exit. An abandoned thread is
    counted until it returns.
    """

    def __init__(
        self,
        on_hung: Callable[[], None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare the pool in the running event loop.

        Args:
            on_hung: Called when a thread is abandoned.
            on_end: Called in each thread at its end.
        """
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Thread] = []
        # Abandoned threads: a future done when the thread returns, and the start time on `time.monotonic`.
        self._left: dict[_Thread, tuple[asyncio.Future[None], float]] = {}
        self._on_hung = on_hung
        self.on_end = on_end
        self._is_closed = False

    @property
    def hung(self) -> int:
        """Number of abandoned threads still running."""
        return len(self._left)

    @property
    def hung_s(self) -> float:
        """Age in seconds of the oldest abandoned thread."""
        return time.monotonic() - min(s for _, s in self._left.values()) if self._left else 0.0

    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        on_left: Callable[[asyncio.Future[None]], None] = lambda _returned: None,
    ) -> tuple[Any, BaseException | None]:
        """Call a function in a thread; return its result, or any exception it raised.

        If cancelled, return immediately and abandon the thread.

        Args:
            function: The function.
            args: Its arguments.
            on_left: Called when the thread is abandoned, with a future that is done when it returns.

        Raises:
            NotStartedError: No thread can be started; the function was not called.
        """
        thread = self._idle.pop() if self._idle else self._start()
        waiter: asyncio.Future[tuple[Any, BaseException | None]] = self._loop.create_future()
        thread.work.put((contextvars.copy_context(), function, args, waiter))
        try:
            return await waiter
        except asyncio.CancelledError:
            # Cancelled from outside: exceptions of the function are returned. It may just have ended, though.
            if thread not in self._idle:
                returned: asyncio.Future[None] = self._loop.create_future()
                self._left[thread] = returned, time.monotonic()
                on_left(returned)
                self._on_hung()
            raise

    def _start(self) -> _Thread:
        try:
            return _Thread(self)
        except (RuntimeError, MemoryError, OSError) as error:
            raise NotStartedError(f"cannot start a thread: {error}") from error

    async def close(self) -> None:
        """End the idle threads now, and the others when they return."""
        self._is_closed = True
        ended = [thread.end(self._loop.create_future()) for thread in self._idle]
        self._idle.clear()
        if ended:
            await asyncio.wait(ended, timeout=_END_S)

    def finished(
        self,
        thread: _Thread,
        waiter: asyncio.Future[tuple[Any, BaseException | None]],
        result: tuple[Any, BaseException | None],
    ) -> None:
        """Hand the result to the event loop; called by the thread."""
        call_soon(self._loop, self._take, thread, waiter, result)

    def _take(
        self,
        thread: _Thread,
        waiter: asyncio.Future[tuple[Any, BaseException | None]],
        result: tuple[Any, BaseException | None],
    ) -> None:
        left = self._left.pop(thread, None)
        if self._is_closed:
            thread.end(self._loop.create_future())
        else:
            self._idle.append(thread)
        if not waiter.done():
            waiter.set_result(result)
        elif left is not None and not left[0].done():
            left[0].set_result(None)


class _Thread(threading.Thread):
    """A daemon thread, so that the process can exit while it hangs."""

    def __init__(self, threads: Threads) -> None:
        super().__init__(name=f"pgsluice-handler-{next(_numbers)}", daemon=True)
        self._threads = threads
        # A future ends the thread, and is done then.
        self.work: SimpleQueue[_Work | asyncio.Future[None]] = SimpleQueue()
        self.start()

    def end(self, ended: asyncio.Future[None]) -> asyncio.Future[None]:
        """End the thread after its work; return the future, which is done then."""
        self.work.put(ended)
        return ended

    def run(self) -> None:
        while not isinstance(work := self.work.get(), asyncio.Future):
            context, function, args, waiter = work
            result: tuple[Any, BaseException | None]
            pid = os.getpid()
            try:
                result = (context.run(function, *args), None)
            except BaseException as error:  # noqa: BLE001 - SystemExit is a result too
                result = (None, error)
            end_fork(pid, result[1])
            self._threads.finished(self, waiter, result)
            del work, context, function, args, waiter, result
        try:
            self._threads.on_end()
        finally:
            call_soon(work.get_loop(), _finish, work)


def _finish(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


class NotStartedError(ConfigurationError):
    """A thread or process for a handler cannot be started, so that none of the handler's code ran."""
