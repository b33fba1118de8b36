# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""The event log: schema `pgq`."""

from __future__ import annotations

from typing import Any

from psycopg import Connection
from psycopg_pool import ConnectionPool

from pgsluice.client._sync.producing import Producing
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import pgq
from pgsluice.client.records import ConsumerInfo, Event, LogInfo


class EventLog(Producing):
    """Append events and consume them in batches between ticks.

    Every method can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: ConnectionPool[Any] | Connection[Any]) -> None:
        """Use a pool or a connection.

        Args:
            source: A pool: each call is a transaction of its own. A connection: each call is part of its transaction,
                and nothing is committed unless it is in autocommit mode. The caller opens and closes it.
        """
        self._runner = Runner(source)

    def create_queue(self, queue_name: str) -> bool:
        """Create an event log with its first tick.

        Returns:
            False when it existed.

        Source: PgQ 3.5.2 `pgq.create_queue`.
        """
        return self._runner.run(pgq.create_queue(queue_name))

    def drop_queue(self, queue_name: str, *, force: bool = False) -> None:
        """Drop an event log with its events.

        Args:
            queue_name: An existing log.
            force: Unregister its consumers too.

        Raises:
            LogNotFoundError: There is no such log.
            LogInUseError: It has consumers and `force` is False; they are named in the error's cause.

        Source: PgQ 3.5.2 `pgq.drop_queue`.
        """
        self._runner.run(pgq.drop_queue(queue_name, force))

    def insert_event(
        self,
        queue_name: str,
        ev_type: str | None,
        ev_data: str | None,
        *,
        ev_extra1: str | None = None,
        ev_extra2: str | None = None,
        ev_extra3: str | None = None,
        ev_extra4: str | None = None,
    ) -> int:
        """Append one event; consumers get it after the commit and the tick that follows.

        Args:
            queue_name: An existing log.
            ev_type: What it is.
            ev_data: What it says; text, JSON by convention.
            ev_extra1: More of it, as are the next three.

        Returns:
            Its ev_id.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log is closed for events, or takes no more of them from one transaction.
            PayloadError: A field is no text that PostgreSQL can store. Nothing was inserted.

        Source: PgQ 3.5.2 `pgq.insert_event`.
        """
        return self._runner.run(
            pgq.insert_event(
                queue_name, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
            )
        )

    def register_consumer(self, queue_name: str, consumer_name: str) -> bool:
        """Subscribe a consumer, from the latest tick on.

        Returns:
            False when it was subscribed already; its position is kept.

        Raises:
            LogNotFoundError: There is no such log.

        Source: PgQ 3.5.2 `pgq.register_consumer`.
        """
        return self._runner.run(pgq.register_consumer(queue_name, consumer_name))

    def unregister_consumer(self, queue_name: str, consumer_name: str) -> int:
        """Remove a consumer's subscription and its position.

        Returns:
            How many were removed, 0 or 1.

        Source: PgQ 3.5.2 `pgq.unregister_consumer`.
        """
        return self._runner.run(pgq.unregister_consumer(queue_name, consumer_name))

    def ticker(self, queue_name: str) -> int | None:
        """Tick one log if it is time. Any number of processes may do so at once.

        Returns:
            The tick_id, or None when it is not time or another session ticks it.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: It is paused, ticked from outside, or the transaction is not READ COMMITTED.

        Source: PgQ 3.5.2 `pgq.ticker`; differences in sql/pgq/README.md.
        """
        return self._runner.run(pgq.ticker(queue_name))

    def ticker_all(self) -> int:
        """Tick every log whose time it is.

        Returns:
            How many were ticked.

        Source: PgQ 3.5.2 `pgq.ticker`.
        """
        return self._runner.run(pgq.ticker_all())

    def next_batch(self, queue_name: str, consumer_name: str) -> int | None:
        """Open the consumer's next batch, or return the one that is open.

        Returns:
            The batch_id, or None when no tick has come since the last batch.

        Raises:
            ConsumerNotFoundError: The consumer is not registered on this log.

        Source: PgQ 3.5.2 `pgq.next_batch`.
        """
        return self._runner.run(pgq.next_batch(queue_name, consumer_name))

    def get_batch_events(self, batch_id: int) -> list[Event]:
        """Return the events of an open batch, by ev_id; the same each time until it is finished.

        Raises:
            BatchNotFoundError: It is not open.

        Source: PgQ 3.5.2 `pgq.get_batch_events`.
        """
        return self._runner.run(pgq.get_batch_events(batch_id))

    def finish_batch(self, batch_id: int) -> bool:
        """Close a batch: the consumer moves behind its events.

        In the transaction of the consumer's own writes this makes their effect an exactly-once effect.

        Returns:
            False when it was not open: another session finished it.

        Source: PgQ 3.5.2 `pgq.finish_batch`.
        """
        return self._runner.run(pgq.finish_batch(batch_id))

    def get_queue_info(self, queue_name: str | None = None) -> list[LogInfo]:
        """Return settings and state of one log, or of all, by name.

        Source: PgQ 3.5.2 `pgq.get_queue_info`.
        """
        return self._runner.run(pgq.get_queue_info(queue_name))

    def get_consumer_info(
        self, queue_name: str | None = None, consumer_name: str | None = None
    ) -> list[ConsumerInfo]:
        """Return position and lag of consumers, by log and name; None for either means all.

        Source: PgQ 3.5.2 `pgq.get_consumer_info`.
        """
        return self._runner.run(pgq.get_consumer_info(queue_name, consumer_name))
