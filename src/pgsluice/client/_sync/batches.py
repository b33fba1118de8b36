# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""The methods of the event log for batches: open, read, ask for events again, finish."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from datetime import datetime, timedelta

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import logs, pgq
from pgsluice.client.calls.arguments import whole
from pgsluice.client.log_records import BatchInfo, Event, OpenBatch


class Batches:
    """What a consumer does with a batch, the events between two ticks; a part of `EventLog`."""

    _runner: Runner

    def next_batch(self, queue_name: str, consumer_name: str) -> int | None:
        """Open the consumer's next batch, or return the one that is open.

        Returns:
            The batch_id, or None when no tick has come since the last batch.

        Raises:
            ConsumerNotFoundError: The consumer is not registered on this log.
            PositionLostError: Its position was given up.

        Source: PgQ 3.5.2 `pgq.next_batch`.
        """
        return self._runner.run(pgq.next_batch(queue_name, consumer_name))

    def next_batch_info(self, queue_name: str, consumer_name: str) -> OpenBatch | None:
        """Open the consumer's next batch as `next_batch` does, and return its ticks too.

        Raises:
            ConsumerNotFoundError: The consumer is not registered on this log.
            PositionLostError: Its position was given up.

        Source: PgQ 3.5.2 `pgq.next_batch_info`.
        """
        return self._runner.run(pgq.next_batch_info(queue_name, consumer_name))

    def next_batch_custom(
        self,
        queue_name: str,
        consumer_name: str,
        *,
        min_lag: timedelta | None = None,
        min_count: int | None = None,
        min_interval: timedelta | None = None,
    ) -> OpenBatch | None:
        """Open a batch that collects several ticks. One that is open already is returned as it is.

        Args:
            queue_name: An existing log.
            consumer_name: A registered consumer.
            min_lag: Take no tick that is younger.
            min_count: Collect about so many events, if there are.
            min_interval: Collect the events of so long a time, if there are.

        Returns:
            The batch, or None when no tick satisfies the conditions yet.

        Raises:
            ConsumerNotFoundError: The consumer is not registered on this log.
            PositionLostError: Its position was given up.

        Source: PgQ 3.5.2 `pgq.next_batch_custom`.
        """
        return self._runner.run(
            pgq.next_batch_custom(queue_name, consumer_name, min_lag, min_count, min_interval)
        )

    def hold_batch(self, batch_id: int) -> None:
        """Keep every other session off an open batch until the end of this transaction. Never waits.

        Call it first in the transaction that also finishes the batch: no other session can process the batch meanwhile.

        Raises:
            BatchNotFoundError: It is not open.
            LogStateError: Another session processes it.

        Source: `sluice.hold_batch`.
        """
        self._runner.run(logs.hold_batch(batch_id))

    def get_batch_events(self, batch_id: int) -> list[Event]:
        """Return the events of an open batch, by ev_id; the same each time until it is finished.

        All at once: see `stream_batch_events` for batches that may be large.

        Raises:
            BatchNotFoundError: It is not open.

        Source: PgQ 3.5.2 `pgq.get_batch_events`.
        """
        return self._runner.run(pgq.get_batch_events(batch_id))

    def stream_batch_events(
        self, batch_id: int, *, after_ev_id: int | None = None, fetch_qty: int = 1000
    ) -> Generator[Event]:
        """Yield the events of an open batch, by ev_id, in bounded memory: a batch may hold millions.

        In a transaction of the caller's it reads through a cursor of the server, and other statements may run in
        between. On a pool it uses one connection up to the end. On a connection in autocommit mode the server first
        puts the events aside, in a file of its own when they are many. Who may stop before the end wraps it in
        `contextlib.closing`.

        Args:
            batch_id: An open batch.
            after_ev_id: Only events with a higher ev_id, to go on where another session stopped; None: all.
            fetch_qty: How many events come from the server at once, 1 or more.

        Raises:
            BatchNotFoundError: It is not open. Raised with the first event.

        Source: `sluice.batch_query`, whose query is run.
        """
        query = logs.batch_query(batch_id, after_ev_id)
        with closing(self._runner.stream(query, whole(fetch_qty, "fetch_qty", 1))) as pages:
            for page in pages:
                for row in page:
                    yield Event(*row)

    def get_batch_page(
        self, batch_id: int, after_ev_id: int | None = None, qty: int = 1000
    ) -> list[Event]:
        """Return some events of an open batch, by ev_id, to go on where another session stopped.

        Args:
            batch_id: An open batch.
            after_ev_id: Only events with a higher ev_id; None: from the first on.
            qty: The most to return, 1 or more.

        Returns:
            About `qty` events: more when several have the last ev_id, as an event that came again may; fewer: there are
            no more. Each page reads the whole batch: `stream_batch_events` with `after_ev_id` reads it once.

        Raises:
            BatchNotFoundError: It is not open.

        Source: `sluice.get_batch_page`.
        """
        return self._runner.run(logs.get_batch_page(batch_id, after_ev_id, qty))

    def get_batch_info(self, batch_id: int) -> BatchInfo | None:
        """Return whose open batch it is and its ticks; None when it is not open.

        Source: PgQ 3.5.2 `pgq.get_batch_info`.
        """
        return self._runner.run(pgq.get_batch_info(batch_id))

    def event_retry(self, batch_id: int, ev_id: int, retry_after: int | datetime) -> bool:
        """Ask for one event of an open batch again; it comes in a later batch, to this consumer only.

        Args:
            batch_id: An open batch.
            ev_id: An event of it.
            retry_after: Seconds from now, 0 or more, or a time with a time zone.

        Returns:
            False when it had been asked for already.

        Raises:
            BatchNotFoundError: The batch is not open.
            ArgumentError: It has no such event.

        Source: PgQ 3.5.2 `pgq.event_retry`. For many events, `retry` costs far less.
        """
        return self._runner.run(pgq.event_retry(batch_id, ev_id, retry_after))

    def batch_retry(self, batch_id: int, retry_seconds: int) -> int:
        """Ask for all events of an open batch again.

        Args:
            batch_id: An open batch.
            retry_seconds: Seconds from now, 0 or more.

        Returns:
            How many are queued by this call: those asked for before are not among them.

        Raises:
            BatchNotFoundError: It is not open.

        Source: PgQ 3.5.2 `pgq.batch_retry`.
        """
        return self._runner.run(pgq.batch_retry(batch_id, retry_seconds))

    def retry(self, batch_id: int, ev_ids: Sequence[int], *, delay: timedelta) -> int:
        """Ask for some events of an open batch again, in one statement.

        Args:
            batch_id: An open batch.
            ev_ids: Events of it.
            delay: From now on, 0 or more.

        Returns:
            How many are queued by this call: those asked for before are not among them.

        Raises:
            BatchNotFoundError: The batch is not open.
            ArgumentError: It lacks one of the events; none is queued.

        Source: `sluice.retry`.
        """
        return self._runner.run(logs.retry(batch_id, ev_ids, delay))

    def finish_batch(self, batch_id: int) -> bool:
        """Close a batch: the consumer moves behind its events.

        In the transaction of the consumer's own writes this makes their effect an exactly-once effect.

        Returns:
            False when it was not open: another session finished it.

        Raises:
            PositionLostError: The consumer's position was given up.

        Source: PgQ 3.5.2 `pgq.finish_batch`.
        """
        return self._runner.run(pgq.finish_batch(batch_id))
