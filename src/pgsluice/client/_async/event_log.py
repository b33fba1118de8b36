# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`AsyncEventLog`: its methods run the calls."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from pgsluice.client import calls
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.sources import AsyncConnectable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta
    from typing import Any, Unpack

    from pgsluice.client.dead_letter_records import FailedEvent
    from pgsluice.client.explain_records import ExplainedFact
    from pgsluice.client.group_records import GroupInfo
    from pgsluice.client.log_records import (
        BatchInfo,
        BrowsedEvent,
        Capture,
        CaptureProblem,
        ConsumerInfo,
        ConsumerState,
        DelayedEvent,
        Event,
        EventPosition,
        LogInfo,
        LogState,
        LogTick,
        NewEvent,
        OpenBatch,
        PipelineState,
        RestoredLog,
        RotationStep,
        Segment,
    )
    from pgsluice.client.settings_records import Change, LogOptions, LogSettings


class AsyncEventLog:
    """Append events and consume them in batches between ticks.

    All methods can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: AsyncConnectable) -> None:
        """Use a pool or a connection.

        Args:
            source: With a pool, each call is a transaction of its own. With a connection, each call runs in the
                caller's transaction, and commits only in autocommit mode. The caller opens and closes it.
        """
        self._runner = AsyncRunner(source)

    async def create(self, log_name: str) -> bool:
        """Create an event log with its first tick.

        Returns:
            False when the log existed.

        Source: PgQ 3.5.2 `pgq.create_queue`.
        """
        return await self._runner.run(calls.pgq.create_queue(log_name))

    async def insert_event(
        self,
        log_name: str,
        ev_type: str | None,
        ev_data: str | None,
        *,
        ev_extra1: str | None = None,
        ev_extra2: str | None = None,
        ev_extra3: str | None = None,
        ev_extra4: str | None = None,
    ) -> int:
        """Append one event; consumers receive it after the commit and the next tick.

        Args:
            log_name: An existing log.
            ev_type: Type of the event.
            ev_data: Text of the event, JSON by convention.
            ev_extra1: Additional text, as are the next three.

        Returns:
            The ev_id.

        Raises:
            LogNotFoundError: The log does not exist.
            LogStateError: The log accepts no events, or no more in one transaction.
            PayloadError: A field is not text that PostgreSQL can store. Nothing was inserted.

        Source: PgQ 3.5.2 `pgq.insert_event`.
        """
        return await self._runner.run(
            calls.pgq.insert_event(
                log_name,
                ev_type,
                ev_data,
                ev_extra1=ev_extra1,
                ev_extra2=ev_extra2,
                ev_extra3=ev_extra3,
                ev_extra4=ev_extra4,
            )
        )

    async def insert_events(self, log_name: str, events: Sequence[NewEvent]) -> list[int]:
        """Append events; consumers receive them after the commit and the next tick.

        Args:
            log_name: An existing log.
            events: Sent in one statement, so they must fit into memory here and on the server.

        Returns:
            The ev_ids, in the order of the events.

        Raises:
            LogNotFoundError: The log does not exist.
            LogStateError: The log accepts no events, or not this many in one transaction.
            PayloadError: A field is not text that PostgreSQL can store. Nothing was inserted.

        Source: `sluice.insert_events`.
        """
        return await self._runner.run(calls.producing.insert_events(log_name, events))

    async def insert_many(self, log_name: str, events: Iterable[NewEvent]) -> int:
        """Append any number of events, by COPY if there are many.

        All are appended, or none: on a pool or in autocommit mode, they are a transaction of their own. After an error
        in the caller's transaction, roll it back.

        Args:
            log_name: An existing log.
            events: Consumed one by one, so it can be a generator over more than fits into memory. It must not use this
                connection.

        Returns:
            The number of events.

        Raises:
            LogNotFoundError: The log does not exist.
            LogStateError: The log accepts no events. The limit of events per transaction applies only below 200 events:
                a COPY is not counted.
            PayloadError: A field is not text that PostgreSQL can store. Nothing was inserted.

        Source: `sluice.insert_events` and `pgq.current_event_table`.
        """
        return await self._runner.run_or_copy(calls.producing.insert_many(log_name, events))

    async def insert_delayed_event(
        self,
        log_name: str,
        ev_type: str | None,
        ev_data: str | None,
        delay: int | datetime,
        *,
        ev_extra1: str | None = None,
        ev_extra2: str | None = None,
        ev_extra3: str | None = None,
        ev_extra4: str | None = None,
    ) -> int | None:
        """Append one event later.

        When it is due, maintenance inserts it into the log and assigns its ev_id; a claim of a share group does so too,
        if it found fewer events than requested. Its ev_time is the time of this call. The number of delayed events is
        unlimited.

        Args:
            log_name: An existing log.
            ev_type: Type of the event.
            ev_data: Text of the event, JSON by convention.
            delay: Seconds until the event is due, 0 or more, or the time when it is due (with a time zone).
            ev_extra1: Additional text, as are the next three.

        Returns:
            The ev_id if the event is already due and was appended immediately; else None.

        Raises:
            LogNotFoundError: The log does not exist.
            LogStateError: The log accepts no events, or no more in one transaction. A delayed event is appended even if
                the log accepts no events by then.
            ArgumentError: The delay is negative, not whole, or a time without a zone. Nothing was inserted.
            PayloadError: A field is not text that PostgreSQL can store. Nothing was inserted.

        Source: `sluice.insert_event`.
        """
        return await self._runner.run(
            calls.delayed.insert_delayed_event(
                log_name,
                ev_type,
                ev_data,
                delay,
                ev_extra1=ev_extra1,
                ev_extra2=ev_extra2,
                ev_extra3=ev_extra3,
                ev_extra4=ev_extra4,
            )
        )

    async def register_consumer(self, log_name: str, consumer_name: str) -> bool:
        """Register a consumer at the latest tick.

        Returns:
            False when the consumer was already registered; its position is kept.

        Raises:
            LogNotFoundError: The log does not exist.

        Source: PgQ 3.5.2 `pgq.register_consumer`.
        """
        return await self._runner.run(calls.pgq.register_consumer(log_name, consumer_name))

    async def next_batch(self, log_name: str, consumer_name: str) -> int | None:
        """Open the consumer's next batch, or return its open batch.

        Returns:
            The batch_id, or None without a new tick since the last batch.

        Raises:
            ConsumerNotFoundError: The consumer is not registered on this log.
            PositionLostError: The consumer's position was dropped by the log's lag limits.

        Source: PgQ 3.5.2 `pgq.next_batch`.
        """
        return await self._runner.run(calls.pgq.next_batch(log_name, consumer_name))

    async def get_batch_events(self, batch_id: int) -> list[Event]:
        """Return the events of an open batch, by ev_id; the same ones until the batch is finished.

        Loads all events into memory; for large batches use `stream_batch_events`.

        Raises:
            BatchNotFoundError: The batch is not open.

        Source: PgQ 3.5.2 `pgq.get_batch_events`.
        """
        return await self._runner.run(calls.pgq.get_batch_events(batch_id))

    async def finish_batch(self, batch_id: int) -> bool:
        """Finish a batch: move the consumer's position past its events.

        In the transaction of the consumer's own writes, this gives them an exactly-once effect.

        Returns:
            False when the batch was not open, because another session finished it.

        Raises:
            PositionLostError: The consumer's position was given up.

        Source: PgQ 3.5.2 `pgq.finish_batch`.
        """
        return await self._runner.run(calls.pgq.finish_batch(batch_id))

    async def event_retry(self, batch_id: int, ev_id: int, retry_after: int | datetime) -> bool:
        """Schedule a retry of one event of an open batch; it is redelivered in a later batch, only to this consumer.

        Args:
            batch_id: An open batch.
            ev_id: Id of an event of the batch.
            retry_after: Seconds from now, 0 or more, or a time with a time zone.

        Returns:
            False when a retry was already scheduled.

        Raises:
            BatchNotFoundError: The batch is not open.
            ArgumentError: The event is not in the batch.

        Source: PgQ 3.5.2 `pgq.event_retry`. For many events, use `retry`, which costs far less.
        """
        return await self._runner.run(calls.pgq.event_retry(batch_id, ev_id, retry_after))

    async def batch_retry(self, batch_id: int, retry_seconds: int) -> int:
        """Schedule a retry of all events of an open batch.

        Args:
            batch_id: An open batch.
            retry_seconds: Seconds from now, 0 or more.

        Returns:
            The number of events scheduled by this call, without those scheduled before.

        Raises:
            BatchNotFoundError: The batch is not open.

        Source: PgQ 3.5.2 `pgq.batch_retry`.
        """
        return await self._runner.run(calls.pgq.batch_retry(batch_id, retry_seconds))

    async def unregister_consumer(self, log_name: str, consumer_name: str) -> int:
        """Unregister a consumer and its subconsumers, and drop their positions.

        Returns:
            The number of consumers removed; 0 if none was registered.

        Source: PgQ 3.5.2 `pgq.unregister_consumer`.
        """
        return await self._runner.run(calls.pgq.unregister_consumer(log_name, consumer_name))

    async def get_queue_info(self, log_name: str | None = None) -> list[LogInfo]:
        """Return the settings and state of one log, or of all, by name.

        Source: PgQ 3.5.2 `pgq.get_queue_info`.
        """
        return await self._runner.run(calls.pgq.get_queue_info(log_name))

    async def get_consumer_info(
        self, log_name: str | None = None, consumer_name: str | None = None
    ) -> list[ConsumerInfo]:
        """Return the position and lag of consumers, by log and name; None for either means all.

        Source: PgQ 3.5.2 `pgq.get_consumer_info`.
        """
        return await self._runner.run(calls.pgq.get_consumer_info(log_name, consumer_name))

    async def drop(self, log_name: str, *, force: bool = False) -> None:
        """Drop an event log with its events.

        Args:
            log_name: An existing log.
            force: Unregister its consumers too.

        Raises:
            LogNotFoundError: The log does not exist.
            LogInUseError: The log has consumers and `force` is False; the error's cause names them.

        Source: PgQ 3.5.2 `pgq.drop_queue`.
        """
        await self._runner.run(calls.pgq.drop_queue(log_name, force=force))

    async def set_log_options(self, log_name: str, **options: Unpack[LogOptions]) -> Change:
        """Change the given options of a log; the others keep their values.

        Args:
            log_name: An existing log.
            **options: See `LogOptions`.

        Returns:
            `unchanged` when the log has these options already.

        Raises:
            ArgumentError: An option is unknown, or its value invalid. Nothing was changed.
            LogNotFoundError: The log does not exist.

        Source: `sluice.set_log_options`.
        """
        return await self._runner.run(calls.settings.set_log_options(log_name, **options))

    async def log_options(self, log_name: str) -> LogSettings:
        """Return the options of a log.

        Raises:
            LogNotFoundError: The log does not exist.

        Source: `sluice.log_options`.
        """
        return await self._runner.run(calls.settings.log_options(log_name))

    async def list_log_options(self) -> list[LogSettings]:
        """Return the options of all logs, by name.

        Source: `sluice.log_options`.
        """
        return await self._runner.run(calls.settings.list_log_options())

    async def capture(
        self, source_table: str, log_name: str, options: Mapping[str, Any] | None = None
    ) -> None:
        """Capture a table: append one event for each changed row, in the transaction of the change.

        Waits for open transactions that have written to the table; other writers wait for the end of this transaction.
        Another call replaces the options and includes new partitions.

        Args:
            source_table: The table as an SQL identifier, such as `shop.orders` or `shop."Orders"`: names with
                upper-case letters or other characters are quoted. Of a partitioned table, the root.
            log_name: An existing log.
            options: `columns` or `ignore`: the columns to keep or to leave out (an update of left-out columns alone
                appends no event); `key`: the columns that identify a row (default: the primary key); `before`: False
                keeps only the key of the old row; `operations`: a list of insert, update, delete and truncate;
                `row_bytes_max`: the size of a row from which on large values are left out; `dropped_partitions`: `keep`
                (default) or `delete` the rows of dropped and detached partitions in current-state tables; `replicated`:
                True captures changes in sessions with `session_replication_role = replica` too.

        Raises:
            LogNotFoundError: The log does not exist.
            ArgumentError: An option is unknown or its value invalid, or `key` does not identify rows.
            CaptureError: The table cannot be captured, or lacks a named column.
            ServerError: The table does not exist.

        Source: `sluice.capture`.
        """
        await self._runner.run(calls.captures.capture(source_table, log_name, options))

    async def drop_capture(self, source_table: str, log_name: str) -> bool:
        """Stop capturing a table into a log; its events stay in the log.

        Args:
            source_table: The table as an SQL identifier, such as `shop.orders` or `shop."Orders"`.
            log_name: The log that it is captured into.

        Returns:
            False when the table was not captured into this log.

        Raises:
            ServerError: The table does not exist.

        Source: `sluice.drop_capture`.
        """
        return await self._runner.run(calls.captures.drop_capture(source_table, log_name))

    async def list_captures(self, log_name: str | None = None) -> list[Capture]:
        """Return the captured tables of one log, or of all, by log and table.

        Source: `sluice.list_captures`.
        """
        return await self._runner.run(calls.captures.list_captures(log_name))

    async def list_capture_problems(self, log_name: str | None = None) -> list[CaptureProblem]:
        """Return why changes of captured tables are not captured or differ from what readers know, of one log or all.

        Includes tables with triggers of PgQ that do not fire.

        Source: `sluice.list_capture_problems`.
        """
        return await self._runner.run(calls.captures.list_capture_problems(log_name))

    async def capture_snapshot(
        self,
        source_table: str,
        log_name: str,
        *,
        after_key: Mapping[str, str] | None = None,
        qty: int = 1000,
    ) -> dict[str, str] | None:
        """Append the next chunk of a captured table's incremental snapshot; call it, and commit, until it returns None.

        Existing rows become events with op `r`, while writers continue. A consumer that applies all events in order,
        starting before the first snapshot row, reaches the current state of the table. The rows of the chunk are locked
        against changes until the commit.

        Args:
            source_table: A captured table as an SQL identifier, such as `shop.orders` or `shop."Orders"`.
            log_name: The log that it is captured into.
            after_key: The result of the previous call; None: start.
            qty: The most rows, 1 or more; fewer when another transaction is changing one. A table without a key is
                taken as a whole, and is locked against writes until the commit.

        Returns:
            The key of the last row, each value as text; None when no rows are left.

        Raises:
            CaptureError: The table is not captured into this log, or its capture is disabled.
            LogStateError: The log accepts no events, or the transaction is not READ COMMITTED.
            ArgumentError: `qty` is out of range, or `after_key` does not name the key columns.
            PayloadError: A value of `after_key` does not fit the type of its column.

        Source: `sluice.capture_snapshot`; sql/sluice/functions/capture/README.md explains the order of snapshot rows
        and changes.
        """
        return await self._runner.run(
            calls.captures.capture_snapshot(source_table, log_name, after_key=after_key, qty=qty)
        )

    async def reject_events(
        self, batch_id: int, failures: Sequence[FailedEvent], *, worker: str | None = None
    ) -> int:
        """Dead-letter events of an open batch for its consumer; finish the batch as usual.

        Args:
            batch_id: An open batch.
            failures: The events, each with the reason and the error. Characters that PostgreSQL cannot store are
                escaped.
            worker: Name of the worker, stored with the dead letters.

        Returns:
            The number of dead-lettered events, without those dead-lettered before.

        Raises:
            BatchNotFoundError: The batch is not open.
            ArgumentError: An event is not in the batch. Nothing was dead-lettered.

        Source: `sluice.reject`.
        """
        return await self._runner.run(
            calls.dead_letters.reject_events(batch_id, failures, worker=worker)
        )

    async def list_delayed(
        self,
        log_name: str,
        *,
        qty: int = 100,
        after_due_at: datetime | None = None,
        after_delayed_id: int | None = None,
    ) -> list[DelayedEvent]:
        """Return a page of a log's delayed events, next due first.

        Args:
            log_name: An existing log.
            qty: The most to return, 1 or more.
            after_due_at: Only events due later; None: start at the next one.
            after_delayed_id: Also events due at exactly `after_due_at` with a higher id; None: no.

        Returns:
            0 to `qty` events; fewer than `qty`: this is the last page. Scans delayed events of other logs that are due
            earlier.

        Raises:
            LogNotFoundError: The log does not exist.
            ArgumentError: `qty` is out of range, or the time has no zone.

        Source: `sluice.list_delayed`.
        """
        return await self._runner.run(
            calls.delayed.list_delayed(
                log_name, qty=qty, after_due_at=after_due_at, after_delayed_id=after_delayed_id
            )
        )

    async def count_delayed(self, log_name: str) -> int:
        """Count a log's delayed events; scans those of all logs, about 3 s per million.

        Raises:
            LogNotFoundError: The log does not exist.

        Source: `sluice.count_delayed`.
        """
        return await self._runner.run(calls.delayed.count_delayed(log_name))

    async def explain_log(self, log_name: str) -> list[ExplainedFact]:
        """Explain a log: its newest event and tick, and which consumers are behind, and why.

        Raises:
            LogNotFoundError: The log does not exist.

        Source: `sluice.explain_log`.
        """
        return await self._runner.run(calls.explain.explain_log(log_name))

    async def explain_event(self, log_name: str, ev_id: int) -> list[ExplainedFact]:
        """Explain an event: for each consumer and share group, whether it has finished the event, and if not, why.

        Returns:
            The facts, in order. `state` in the detail of the first is `readable`, `before a tick`, `gone` (the id was
            used, and the log has no such event) or `unknown` (the id was never used).

        Raises:
            LogNotFoundError: The log does not exist.

        Source: `sluice.explain_event`.
        """
        return await self._runner.run(calls.explain.explain_event(log_name, ev_id))

    async def explain_consumer(self, log_name: str, consumer_name: str) -> list[ExplainedFact]:
        """Explain a consumer: its position, and why it has not read the newest events.

        Returns:
            The facts, in order. For a pipeline into the lake, the detail of the second has `is_running`, `kind` and
            `lake`; a share group has the facts of `ShareGroup.explain`.

        Raises:
            LogNotFoundError: The log does not exist.
            ConsumerNotFoundError: The consumer is not registered.

        Source: `sluice.explain_consumer`.
        """
        return await self._runner.run(calls.explain.explain_consumer(log_name, consumer_name))

    async def hold_batch(self, batch_id: int) -> None:
        """Lock an open batch against other sessions until the end of this transaction. Never waits.

        Call it first in the transaction that finishes the batch, so that no other session processes the batch
        concurrently.

        Raises:
            BatchNotFoundError: The batch is not open.
            LogStateError: Another session is processing the batch.

        Source: `sluice.hold_batch`.
        """
        await self._runner.run(calls.logs.hold_batch(batch_id))

    async def stream_batch_events(
        self, batch_id: int, *, after_ev_id: int | None = None, fetch_qty: int = 1000
    ) -> AsyncGenerator[Event]:
        """Yield the events of an open batch by ev_id, in bounded memory.

        In the caller's transaction, it uses a server-side cursor, and other statements can run in between. On a pool,
        it occupies one connection until it is exhausted. On a connection in autocommit mode, the server first
        materializes the events, in a temporary file if they are many. To stop early, wrap it in `contextlib.aclosing`.

        Args:
            batch_id: An open batch.
            after_ev_id: Only events with a higher ev_id, to resume where another session stopped; None: all.
            fetch_qty: Events per fetch, 1 or more.

        Raises:
            BatchNotFoundError: The batch is not open. Raised with the first event.

        Source: `sluice.batch_query`, which returns the query.
        """
        stream = calls.logs.stream_batch_events(
            batch_id, after_ev_id=after_ev_id, fetch_qty=fetch_qty
        )
        async with aclosing(self._runner.stream(stream.query, stream.fetch_qty)) as pages:
            async for page in pages:
                for row in page:
                    yield stream.read_row(*row)

    async def get_batch_page(
        self, batch_id: int, after_ev_id: int | None = None, qty: int = 1000
    ) -> list[Event]:
        """Return a page of the events of an open batch, by ev_id.

        Args:
            batch_id: An open batch.
            after_ev_id: Only events with a higher ev_id; None: start at the first.
            qty: The most to return, 1 or more.

        Returns:
            About `qty` events: more when several events share the last ev_id, as after a retry; fewer on the last page.
            In a log with a share group, a page costs its events. In other logs, each page of a batch of up to 20,000
            events scans the batch; of a larger one, the first page of a session does, and later ones read about 4,000
            rows. `stream_batch_events` with `after_ev_id` scans it once.

        Raises:
            BatchNotFoundError: The batch is not open.

        Source: `sluice.get_batch_page`.
        """
        return await self._runner.run(calls.logs.get_batch_page(batch_id, after_ev_id, qty))

    async def retry(self, batch_id: int, ev_ids: Sequence[int], *, delay: timedelta) -> int:
        """Schedule a retry of events of an open batch, in one statement.

        Args:
            batch_id: An open batch.
            ev_ids: Ids of events of the batch.
            delay: Time until redelivery, 0 or more.

        Returns:
            The number of events scheduled by this call, without those scheduled before.

        Raises:
            BatchNotFoundError: The batch is not open.
            ArgumentError: An event is not in the batch. No retry was scheduled.

        Source: `sluice.retry`.
        """
        return await self._runner.run(calls.logs.retry(batch_id, ev_ids, delay=delay))

    async def tick(self) -> list[LogTick]:
        """Tick every log with new events, regardless of its ticker settings.

        Skips logs that are paused or ticked externally. Cheap if nothing is new, so it can be called many times per
        second.

        Returns:
            The new ticks.

        Source: `sluice.tick`.
        """
        return await self._runner.run(calls.logs.tick())

    async def rotate(self, log_name: str | None = None) -> list[RotationStep]:
        """Rotate logs: switch to the next segment when due, and reclaim segments that no consumer needs.

        Waits at most 100 ms for a lock; a segment in use is left to a later call.

        Args:
            log_name: An existing log; None: all.

        Returns:
            The steps done, and the reason for each that was not.

        Raises:
            LogNotFoundError: The log does not exist.

        Source: `sluice.rotate`.
        """
        return await self._runner.run(calls.logs.rotate(log_name))

    async def list_segments(self, log_name: str) -> list[Segment]:
        """Return the segments of a log, by number, with their size and the consumers that need them.

        Raises:
            LogNotFoundError: The log does not exist.

        Source: `sluice.list_segments`.
        """
        return await self._runner.run(calls.logs.list_segments(log_name))

    async def list_consumers(self, log_name: str | None = None) -> list[ConsumerState]:
        """Return the lag of consumers and the storage they pin, by log and name; None means all logs.

        Source: `sluice.list_consumers`.
        """
        return await self._runner.run(calls.logs.list_consumers(log_name))

    async def browse_events(
        self,
        log_name: str,
        *,
        from_ev_txid: int | None = None,
        from_ev_id: int | None = None,
        backward: bool = False,
        qty: int = 100,
        length_max: int | None = None,
    ) -> list[BrowsedEvent]:
        """Return a page of the events of a log, in the order of transaction and ev_id, without a consumer.

        It reads only the transactions of these events, and in a log with share groups only these events, from an index.
        A redelivery to a consumer is a row of its own, with `ev_retry`.

        Args:
            log_name: An existing log.
            from_ev_txid: With `from_ev_id` the position: that of an event of the previous page, or of `event_position`.
                None: the start of the log, or with `backward` its end.
            from_ev_id: As above. The event at the position is not returned.
            backward: Return the events before the position, newest first, instead of those after it.
            qty: The most to return, 1 or more.
            length_max: Cut longer texts after this many characters; None: return them whole.

        Returns:
            0 to `qty` events; fewer than `qty`: this is the last page. Events without a tick are included.

        Raises:
            LogNotFoundError: The log does not exist.
            ArgumentError: `qty` is out of range.

        Source: `sluice.browse_events`.
        """
        return await self._runner.run(
            calls.logs.browse_events(
                log_name,
                from_ev_txid=from_ev_txid,
                from_ev_id=from_ev_id,
                backward=backward,
                qty=qty,
                length_max=length_max,
            )
        )

    async def event_position(
        self, log_name: str, of_ev_id: int | None = None, *, moment: datetime | None = None
    ) -> EventPosition | None:
        """Return the position of an event for `browse_events`, or that of a time.

        Args:
            log_name: An existing log.
            of_ev_id: An event. Give either this or `moment`.
            moment: A time with a time zone: the position precedes the transactions after the last tick before it.

        Returns:
            The position; None if the log does not have the event, or if it is not among the first 50,000 around its id.

        Raises:
            LogNotFoundError: The log does not exist.
            ArgumentError: Neither or both are given, or the time has no zone.

        Source: `sluice.event_position`.
        """
        return await self._runner.run(calls.logs.event_position(log_name, of_ev_id, moment=moment))

    async def list_log_states(
        self, *, after_name: str = "", qty: int = 1000, search: str = ""
    ) -> list[LogState]:
        """Return the figures of event logs by name.

        Args:
            after_name: Only logs whose name sorts after this one; for paging.
            qty: Maximum number of logs.
            search: Only logs whose name contains this text; upper and lower case are equal.

        Source: `sluice.list_log_states`.
        """
        return await self._runner.run(
            calls.logs.list_log_states(after_name=after_name, qty=qty, search=search)
        )

    async def after_restore(self, log_name: str | None = None) -> list[RestoredLog]:
        """Repair logs after restoring a dump, whose transaction ids are not valid in this cluster.

        Restored logs are not ticked until they are repaired. Consumers keep their positions. Physical copies and
        pg_upgrade need no repair.

        Args:
            log_name: An existing log; None: all.

        Returns:
            The repaired logs, without those that needed no repair. With `log_name` None, a log that cannot be
            repaired is skipped and has None as `events`.

        Raises:
            LogNotFoundError: The log does not exist.

        Source: `sluice.after_restore`.
        """
        return await self._runner.run(calls.logs.after_restore(log_name))

    async def log_tick(self, log_name: str) -> int:
        """Tick one log now if it has new events, regardless of its ticker settings.

        Returns:
            The newest tick_id, which covers all events committed before the call.

        Raises:
            LogNotFoundError: The log does not exist.
            LogStateError: The transaction is not READ COMMITTED.

        Source: `sluice.log_tick`.
        """
        return await self._runner.run(calls.logs.log_tick(log_name))

    async def listen_log(self, log_name: str) -> str:
        """Listen for ticks of a log in this session, from the commit on; needs a connection instead of a pool.

        Returns:
            The name of the channel.

        Raises:
            LogNotFoundError: The log does not exist.

        Source: `sluice.listen`.
        """
        return await self._runner.run(calls.logs.listen_log(log_name))

    async def unlisten_log(self, log_name: str) -> None:
        """Stop listening for ticks of a log.

        Source: `sluice.unlisten`.
        """
        await self._runner.run(calls.logs.unlisten_log(log_name))

    async def set_queue_config(self, log_name: str, param_name: str, param_value: str) -> None:
        """Change a setting of a log.

        Args:
            log_name: An existing log.
            param_name: One of ticker_max_count, ticker_max_lag, ticker_idle_period, ticker_paused, rotation_period,
                external_ticker.
            param_value: In PostgreSQL's syntax: `500`, `3 seconds`, `true`.

        Raises:
            LogNotFoundError: The log does not exist.
            ArgumentError: The setting does not exist.
            PayloadError: It cannot have this value.

        Source: PgQ 3.5.2 `pgq.set_queue_config`.
        """
        await self._runner.run(calls.pgq.set_queue_config(log_name, param_name, param_value))

    async def current_event_table(self, log_name: str) -> str:
        """Return the table that currently receives events, for a COPY in the same transaction.

        Raises:
            LogNotFoundError: The log does not exist.
            LogStateError: The log accepts no events.

        Source: PgQ 3.5.2 `pgq.current_event_table`; differences in sql/pgq/README.md.
        """
        return await self._runner.run(calls.pgq.current_event_table(log_name))

    async def register_consumer_at(self, log_name: str, consumer_name: str, tick_pos: int) -> bool:
        """Register a consumer at a tick, or move it there and close its open batch.

        Args:
            log_name: An existing log.
            consumer_name: Name of the consumer.
            tick_pos: A tick that the log still keeps; the next batch starts after it.

        Returns:
            False when the consumer was already registered and was moved.

        Raises:
            LogNotFoundError: The log does not exist.
            LogStateError: The log does not have this tick, or no longer.

        Source: PgQ 3.5.2 `pgq.register_consumer_at`.
        """
        return await self._runner.run(
            calls.pgq.register_consumer_at(log_name, consumer_name, tick_pos)
        )

    async def ticker(self, log_name: str) -> int | None:
        """Tick one log if a tick is due. Safe to call from any number of processes.

        Returns:
            The tick_id, or None if no tick is due or another session is ticking the log.

        Raises:
            LogNotFoundError: The log does not exist.
            LogStateError: The log is paused or ticked externally, or the transaction is not READ COMMITTED.

        Source: PgQ 3.5.2 `pgq.ticker`; differences in sql/pgq/README.md.
        """
        return await self._runner.run(calls.pgq.ticker(log_name))

    async def ticker_all(self) -> int:
        """Tick every log whose tick is due.

        Returns:
            The number of logs ticked.

        Source: PgQ 3.5.2 `pgq.ticker`.
        """
        return await self._runner.run(calls.pgq.ticker_all())

    async def ticker_external(
        self, log_name: str, tick_id: int, orig_timestamp: datetime, event_seq: int
    ) -> int:
        """Tick a log that is ticked externally, such as a copy of another log.

        Args:
            log_name: A log whose `queue_external_ticker` is set.
            tick_id: The tick_id of the original log.
            orig_timestamp: Time of the original tick, with a time zone.
            event_seq: The last ev_id assigned at that time.

        Returns:
            The tick_id.

        Raises:
            LogStateError: The log is not ticked externally, or already has this tick or a later one.

        Source: PgQ 3.5.2 `pgq.ticker`.
        """
        return await self._runner.run(
            calls.pgq.ticker_external(log_name, tick_id, orig_timestamp, event_seq)
        )

    async def force_tick(self, log_name: str) -> int | None:
        """Make the next call of `ticker` tick regardless of the log's settings; this call itself does not tick.

        Returns:
            The current last tick_id; the next one is higher.

        Source: PgQ 3.5.2 `pgq.force_tick`.
        """
        return await self._runner.run(calls.pgq.force_tick(log_name))

    async def maint_retry_events(self) -> int:
        """Move events whose retry is due back into their logs.

        Returns:
            The number of events moved; call it again until this is 0.

        Source: PgQ 3.5.2 `pgq.maint_retry_events`.
        """
        return await self._runner.run(calls.pgq.maint_retry_events())

    async def next_batch_info(self, log_name: str, consumer_name: str) -> OpenBatch | None:
        """Open the consumer's next batch as `next_batch` does, and return it with its ticks.

        Raises:
            ConsumerNotFoundError: The consumer is not registered on this log.
            PositionLostError: The consumer's position was dropped by the log's lag limits.

        Source: PgQ 3.5.2 `pgq.next_batch_info`.
        """
        return await self._runner.run(calls.pgq.next_batch_info(log_name, consumer_name))

    async def next_batch_custom(
        self,
        log_name: str,
        consumer_name: str,
        *,
        min_lag: timedelta | None = None,
        min_count: int | None = None,
        min_interval: timedelta | None = None,
    ) -> OpenBatch | None:
        """Open a batch that spans several ticks, or return the open batch unchanged.

        Args:
            log_name: An existing log.
            consumer_name: A registered consumer.
            min_lag: Minimum age of the batch's last tick.
            min_count: Minimum number of events, approximately, if available.
            min_interval: Minimum time span of the batch, if available.

        Returns:
            The batch, or None if no tick satisfies the conditions yet.

        Raises:
            ConsumerNotFoundError: The consumer is not registered on this log.
            PositionLostError: The consumer's position was dropped by the log's lag limits.

        Source: PgQ 3.5.2 `pgq.next_batch_custom`.
        """
        return await self._runner.run(
            calls.pgq.next_batch_custom(
                log_name,
                consumer_name,
                min_lag=min_lag,
                min_count=min_count,
                min_interval=min_interval,
            )
        )

    async def get_batch_info(self, batch_id: int) -> BatchInfo | None:
        """Return the consumer and the ticks of an open batch; None if the batch is not open.

        Source: PgQ 3.5.2 `pgq.get_batch_info`.
        """
        return await self._runner.run(calls.pgq.get_batch_info(batch_id))

    async def version(self) -> str:
        """Return the version of PgQ's interface followed by our own; it starts with `3.5`.

        Source: PgQ 3.5.2 `pgq.version`.
        """
        return await self._runner.run(calls.pgq.version())

    async def register_subconsumer(
        self, log_name: str, consumer_name: str, subconsumer_name: str
    ) -> bool:
        """Register a subconsumer, and its consumer if necessary.

        Returns:
            False when it was already registered.

        Raises:
            LogNotFoundError: The log does not exist.

        Source: pgq-coop 3.4 `pgq_coop.register_subconsumer`.
        """
        return await self._runner.run(
            calls.pgq_coop.register_subconsumer(log_name, consumer_name, subconsumer_name)
        )

    async def unregister_subconsumer(
        self, log_name: str, consumer_name: str, subconsumer_name: str, *, close_batch: bool = False
    ) -> int:
        """Unregister a subconsumer.

        Args:
            log_name: An existing log.
            consumer_name: Its consumer, which stays.
            subconsumer_name: The subconsumer to unregister.
            close_batch: Close its open batch; its events are not delivered to another subconsumer.

        Returns:
            The number of subconsumers removed, 0 or 1.

        Raises:
            LogStateError: The subconsumer has an open batch and `close_batch` is False.

        Source: pgq-coop 3.4 `pgq_coop.unregister_subconsumer`.
        """
        return await self._runner.run(
            calls.pgq_coop.unregister_subconsumer(
                log_name, consumer_name, subconsumer_name, close_batch=close_batch
            )
        )

    async def coop_next_batch_custom(
        self,
        log_name: str,
        consumer_name: str,
        subconsumer_name: str,
        *,
        min_lag: timedelta | None = None,
        min_count: int | None = None,
        min_interval: timedelta | None = None,
        dead_interval: timedelta | None = None,
    ) -> int | None:
        """Open a batch as `coop_next_batch` does, with the conditions of `next_batch_custom`.

        Returns:
            The batch_id, or None if no batch is available.

        Raises:
            LogNotFoundError: The log does not exist.
            LogStateError: The consumer itself has an open batch.

        Source: pgq-coop 3.4 `pgq_coop.next_batch_custom`.
        """
        return await self._runner.run(
            calls.pgq_coop.next_batch_custom(
                log_name,
                consumer_name,
                subconsumer_name,
                min_lag=min_lag,
                min_count=min_count,
                min_interval=min_interval,
                dead_interval=dead_interval,
            )
        )

    async def coop_next_batch(
        self,
        log_name: str,
        consumer_name: str,
        subconsumer_name: str,
        *,
        dead_interval: timedelta | None = None,
    ) -> int | None:
        """Open the subconsumer's next batch, or return its open batch. Registers the subconsumer if necessary.

        Args:
            log_name: An existing log.
            consumer_name: The consumer whose batches the subconsumers share.
            subconsumer_name: The subconsumer that opens the batch.
            dead_interval: Take over the batch of a subconsumer after this time without activity; None: never.

        Returns:
            The batch_id, or None if no batch is available.

        Raises:
            LogNotFoundError: The log does not exist.
            LogStateError: The consumer itself has an open batch.

        Source: pgq-coop 3.4 `pgq_coop.next_batch`; differences in sql/pgq/README.md.
        """
        return await self._runner.run(
            calls.pgq_coop.next_batch(
                log_name, consumer_name, subconsumer_name, dead_interval=dead_interval
            )
        )

    async def coop_finish_batch(self, batch_id: int) -> bool:
        """Finish a subconsumer's batch.

        Returns:
            False when the batch was not open, as after a takeover by another subconsumer.

        Source: pgq-coop 3.4 `pgq_coop.finish_batch`.
        """
        return await self._runner.run(calls.pgq_coop.finish_batch(batch_id))

    async def list_pipelines(self) -> list[PipelineState]:
        """Return the pipelines from event logs into the lake, by log and consumer, with their progress and lag.

        Source: `sluice.list_pipelines`.
        """
        return await self._runner.run(calls.pipelines.list_pipelines())

    async def list_groups(self, log_name: str | None = None) -> list[GroupInfo]:
        """Return the settings and lag of the share groups of one log, or of all, by log and name.

        Raises:
            LogNotFoundError: The log does not exist.

        Source: `sluice.list_groups`.
        """
        return await self._runner.run(calls.share_groups.list_groups(log_name))
