"""A tick batch, as a batch handler gets it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from psycopg import AsyncConnection

from pgsluice.client import AsyncEventLog, Event
from pgsluice.outcome import Outcome
from pgsluice.worker.engine.consumed_batch import BatchProgress


class AsyncEventBatch:
    """An open tick batch.

    Attributes:
        batch_id: Its id.
        queue_name: The log.
        consumer_name: Whose batch it is.
    """

    def __init__(
        self,
        connection: AsyncConnection[Any],
        queue_name: str,
        consumer_name: str,
        batch_id: int,
        progress: BatchProgress,
    ) -> None:
        """Wrap an open batch; what becomes of its events is noted in the progress."""
        self.batch_id = batch_id
        self.queue_name = queue_name
        self.consumer_name = consumer_name
        self._log = AsyncEventLog(connection)
        self._progress = progress

    async def events(self, *, fetch_qty: int = 1000) -> AsyncGenerator[Event]:
        """Yield the events by ev_id, in bounded memory; other statements may run on the connection in between.

        Args:
            fetch_qty: How many come from the server at once, 1 or more.
        """
        self._progress.events = 0
        async with aclosing(
            self._log.stream_batch_events(self.batch_id, fetch_qty=fetch_qty)
        ) as events:
            async for event in events:
                self._progress.events += 1
                yield event

    def retry(self, event: Event, *, delay_s: float) -> None:
        """Ask for an event of the batch again; takes effect when the batch is finished.

        Args:
            event: One of this batch.
            delay_s: Seconds from now, 0 or more.
        """
        self._progress.again(event, delay_s)


EventHandler = Callable[[AsyncConnection[Any], Event], Awaitable[Outcome | None]]
BatchHandler = Callable[[AsyncConnection[Any], AsyncEventBatch], Awaitable[None]]
