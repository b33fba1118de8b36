# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""Tick batch passed to a batch handler."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

from psycopg import Connection

from pgsluice.client import Event, EventLog
from pgsluice.outcome import Outcome
from pgsluice.worker.engine.consume.consumed_batch import BatchProgress


class EventBatch:
    """An open tick batch.

    Attributes:
        batch_id: Its id.
        log_name: The event log.
        consumer_name: The consumer that opened it.
    """

    def __init__(
        self,
        connection: Connection[Any],
        log_name: str,
        consumer_name: str,
        batch_id: int,
        progress: BatchProgress,
    ) -> None:
        """Wrap an open batch; outcomes of its events are collected in `progress`."""
        self.batch_id = batch_id
        self.log_name = log_name
        self.consumer_name = consumer_name
        self._log = EventLog(connection)
        self._progress = progress

    def events(self, *, fetch_qty: int = 1000) -> Generator[Event]:
        """Yield the events by `ev_id` in bounded memory; the connection accepts other statements in between.

        Args:
            fetch_qty: Events per fetch, 1 or more.
        """
        self._progress.events = 0
        with closing(self._log.stream_batch_events(self.batch_id, fetch_qty=fetch_qty)) as events:
            for event in events:
                self._progress.events += 1
                yield event

    def retry(self, event: Event, *, delay_s: float) -> None:
        """Schedule an event of this batch for redelivery; takes effect when the batch is finished.

        Args:
            event: An event of this batch.
            delay_s: Back-off in seconds, 0 or more.
        """
        self._progress.again(event, delay_s)


EventHandler = Callable[[Connection[Any], Event], Outcome | None]
BatchHandler = Callable[[Connection[Any], EventBatch], None]
