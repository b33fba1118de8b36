"""Event consumers in tests: one suite for the sync and the async consumer.

A handler is written as a generator that yields what it would await: calls of the connection, the
events of a batch.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

from psycopg_pool import AsyncConnectionPool, ConnectionPool

from pgsluice import AsyncEventConsumer, EventConsumer

Handler = Callable[[Any, Any], Any]


def sync_handler(steps: Handler) -> Handler:
    """Wrap a generator as a handler of the sync consumer."""

    def handle(connection: Any, given: Any) -> Any:
        running, answer = steps(connection, given), None
        while True:
            try:
                asked = running.send(answer)
            except StopIteration as end:
                return end.value
            answer = list(asked) if inspect.isgenerator(asked) else asked

    return handle


def async_handler(steps: Handler) -> Handler:
    """Wrap a generator as a handler of the async consumer."""

    async def handle(connection: Any, given: Any) -> Any:
        running, answer, error = steps(connection, given), None, None
        while True:
            try:
                asked = running.throw(error) if error else running.send(answer)
            except StopIteration as end:
                return end.value
            try:
                error = None
                answer = [e async for e in asked] if inspect.isasyncgen(asked) else await asked
            except Exception as failure:
                error = failure

    return handle


class Consuming:
    """Creates consumers of one style, each with its own pool."""

    def __init__(self, style: str, url: str) -> None:
        self.style = style
        self.url = url

    def once(self, *names: str, rounds: int = 1, **options: Any) -> list[Any]:
        """Return the results of one consumer's calls of `run_once`."""
        if self.style == "sync":
            with ConnectionPool(self.url, min_size=1, max_size=1, open=True) as pool:
                consumer = EventConsumer(pool, *names, **_wrapped(options, sync_handler))
                return [consumer.run_once() for _ in range(rounds)]

        async def run() -> list[Any]:
            async with AsyncConnectionPool(self.url, min_size=1, max_size=1, open=False) as pool:
                consumer = AsyncEventConsumer(pool, *names, **_wrapped(options, async_handler))
                return [await consumer.run_once() for _ in range(rounds)]

        return asyncio.run(run())

    @contextlib.contextmanager
    def running(self, *names: str, **options: Any) -> Iterator[Background]:
        """Run a consumer in a thread."""
        pool_options = {"min_size": 1, "max_size": 1, "reconnect_timeout": 600.0, "timeout": 1.0}
        background = Background()
        if self.style == "sync":

            def run() -> None:
                with ConnectionPool(self.url, open=True, **pool_options) as pool:
                    EventConsumer(pool, *names, **_wrapped(options, sync_handler)).run(
                        background.stopping
                    )

        else:

            async def run_async() -> None:
                stop, loop = asyncio.Event(), asyncio.get_running_loop()
                background.on_stop = lambda: loop.call_soon_threadsafe(stop.set)
                async with AsyncConnectionPool(self.url, open=False, **pool_options) as pool:
                    wrapped = _wrapped(options, async_handler)
                    consumer = AsyncEventConsumer(pool, *names, **wrapped)
                    if background.stopping.is_set():
                        return
                    await consumer.run(stop)

            def run() -> None:
                asyncio.run(run_async())

        background.start(run)
        try:
            yield background
        finally:
            background.stop()
        assert background.error is None, background.error


class Background:
    """A thread whose end and error are observable."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.on_stop: Callable[[], object] = lambda: None
        self.error: Exception | None = None

    def start(self, run: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=self._guarded, args=[run])
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()
        with contextlib.suppress(RuntimeError):  # the loop is closed, as the consumer has ended
            self.on_stop()
        self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def expected(self) -> Exception | None:
        """Return the error that ended it, which then does not fail the test."""
        error, self.error = self.error, None
        return error

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:
            self.error = error


def _wrapped(options: dict[str, Any], wrap: Callable[[Handler], Handler]) -> dict[str, Any]:
    return {
        name: wrap(value) if name in ("on_event", "on_batch") else value
        for name, value in options.items()
    }
