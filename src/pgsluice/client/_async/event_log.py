# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`AsyncEventLog`: its methods run the calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import (
    captures,
    delayed,
    logs,
    pgq,
    pgq_coop,
    producing,
    share_groups,
    upkeep,
)
from pgsluice.client.calls.upkeep import ExtraMaintenance
from pgsluice.client.group_records import GroupInfo
from pgsluice.client.log_records import (
    BatchInfo,
    Capture,
    ConsumerInfo,
    ConsumerState,
    DelayedEvent,
    Event,
    GroupStep,
    LogInfo,
    LogPolicy,
    LogTick,
    NewEvent,
    OpenBatch,
    RestoredLog,
    RotationStep,
    Segment,
)


class AsyncEventLog:
    """Append events and consume them in batches between ticks.

    Every method can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: AsyncConnectionPool[Any] | AsyncConnection[Any]) -> None:
        """Use a pool or a connection.

        Args:
            source: A pool: each call is a transaction of its own. A connection: each call is part of its transaction,
                and nothing is committed unless it is in autocommit mode. The caller opens and closes it.
        """
        self._runner = AsyncRunner(source)

    async def capture(
        self, source_table: str, queue_name: str, options: Mapping[str, Any] | None = None
    ) -> None:
        """From now on append one event per changed row of a table, in the transaction of the change.

        Waits for every transaction that has written to the table to end, and writers wait for the end of this one.
        Called again it replaces the options, and covers partitions that were added.

        Args:
            source_table: The table as in SQL, `shop.orders`; or the root of a partitioned one.
            queue_name: An existing log.
            options: `columns` or `ignore`, what is kept or left out (an update of nothing else makes no event);
                `key`, the columns that tell rows apart, by default the primary key; `before`, False to keep of the
                old row no more than the key; `operations`, a list of insert, update, delete and truncate.

        Raises:
            LogNotFoundError: There is no such log.
            ArgumentError: An option does not exist or its value is bad, or `key` is no key.
            CaptureError: The table cannot be captured, or has no such column.
            ServerError: There is no such table.

        Source: `sluice.capture`.
        """
        await self._runner.run(captures.capture(source_table, queue_name, options))

    async def drop_capture(self, source_table: str, queue_name: str) -> bool:
        """Stop capturing a table into a log; events that are there stay.

        Returns:
            False when it was not captured into it.

        Raises:
            ServerError: There is no such table.

        Source: `sluice.drop_capture`.
        """
        return await self._runner.run(captures.drop_capture(source_table, queue_name))

    async def list_captures(self, queue_name: str | None = None) -> list[Capture]:
        """Return the captured tables of one log, or of all, by log and table.

        Source: `sluice.list_captures`.
        """
        return await self._runner.run(captures.list_captures(queue_name))

    async def capture_snapshot(
        self,
        source_table: str,
        queue_name: str,
        *,
        after_key: Mapping[str, str] | None = None,
        qty: int = 1000,
    ) -> dict[str, str] | None:
        """Append the next rows of a captured table as they are, op `r`; call it, and commit, until it returns None.

        Who applies the events in their order, from before the first of these on, ends with the table as it is:
        writers go on meanwhile. The rows are locked against change until the commit.

        Args:
            source_table: A captured table.
            queue_name: The log that it is captured into.
            after_key: What the last call returned; None: begin.
            qty: The most rows, 1 or more; fewer when somebody is changing one of them. A table without a key is taken
                whole, and nobody else writes to it until the commit.

        Returns:
            The key of the last row, each value as text; None when there were no more rows.

        Raises:
            CaptureError: The table is not captured into this log, or its capture is disabled.
            LogStateError: The log is closed for events, or the transaction is not READ COMMITTED.
            ArgumentError: `qty` is out of range, or `after_key` is no key of the table.
            PayloadError: A value of `after_key` is none of its column.

        Source: `sluice.capture_snapshot`; sql/sluice/README.md says why the order is right.
        """
        return await self._runner.run(
            captures.capture_snapshot(source_table, queue_name, after_key=after_key, qty=qty)
        )

    async def insert_delayed_event(
        self,
        queue_name: str,
        ev_type: str | None,
        ev_data: str | None,
        delay: int | datetime,
        *,
        ev_extra1: str | None = None,
        ev_extra2: str | None = None,
        ev_extra3: str | None = None,
        ev_extra4: str | None = None,
    ) -> int | None:
        """Append one event at a time to come.

        When it is due, maintenance puts it into the log, or the next claim of a share group that finds too little; then
        it gets its ev_id. Its ev_time is when this was called. Any number may wait.

        Args:
            queue_name: An existing log.
            ev_type: What it is.
            ev_data: What it says; text, JSON by convention.
            delay: Seconds until it is due, 0 or more, or the time when it is (with a time zone).
            ev_extra1: More of it, as are the next three.

        Returns:
            None while it waits; its ev_id when it is due already and was appended at once.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log is closed for events, or takes no more of them from one transaction. One that waits
                comes also into a log that was closed meanwhile.
            ArgumentError: The delay is negative, not whole, or a time without a zone. Nothing was inserted.
            PayloadError: A field is no text that PostgreSQL can store. Nothing was inserted.

        Source: `sluice.insert_event`.
        """
        return await self._runner.run(
            delayed.insert_delayed_event(
                queue_name,
                ev_type,
                ev_data,
                delay,
                ev_extra1=ev_extra1,
                ev_extra2=ev_extra2,
                ev_extra3=ev_extra3,
                ev_extra4=ev_extra4,
            )
        )

    async def list_delayed(
        self,
        queue_name: str,
        *,
        qty: int = 100,
        after_due_at: datetime | None = None,
        after_delayed_id: int | None = None,
    ) -> list[DelayedEvent]:
        """Return a page of the events that wait for their time, the next one first.

        Args:
            queue_name: An existing log.
            qty: The most to return, 1 or more.
            after_due_at: Only those that are due later; None: from the next one on.
            after_delayed_id: Also those due at `after_due_at` with a higher id; None: not.

        Returns:
            0 to `qty` events; fewer than `qty`: there are no more. Where another log has millions that wait, this reads
            those of them that are due before.

        Raises:
            LogNotFoundError: There is no such log.
            ArgumentError: `qty` is out of range, or the time has no zone.

        Source: `sluice.list_delayed`.
        """
        return await self._runner.run(
            delayed.list_delayed(
                queue_name, qty=qty, after_due_at=after_due_at, after_delayed_id=after_delayed_id
            )
        )

    async def count_delayed(self, queue_name: str) -> int:
        """Return how many events of a log wait for their time; it reads those of all logs, about 3 s for a million.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.count_delayed`.
        """
        return await self._runner.run(delayed.count_delayed(queue_name))

    async def hold_batch(self, batch_id: int) -> None:
        """Keep every other session off an open batch until the end of this transaction. Never waits.

        Call it first in the transaction that also finishes the batch: no other session can process the batch meanwhile.

        Raises:
            BatchNotFoundError: It is not open.
            LogStateError: Another session processes it.

        Source: `sluice.hold_batch`.
        """
        await self._runner.run(logs.hold_batch(batch_id))

    async def stream_batch_events(
        self, batch_id: int, *, after_ev_id: int | None = None, fetch_qty: int = 1000
    ) -> AsyncGenerator[Event]:
        """Yield the events of an open batch, by ev_id, in bounded memory: a batch may hold millions.

        In a transaction of the caller's it reads through a cursor of the server, and other statements may run in
        between. On a pool it uses one connection up to the end. On a connection in autocommit mode the server first
        puts the events aside, in a file of its own when they are many. Who may stop before the end wraps it in
        `contextlib.aclosing`.

        Args:
            batch_id: An open batch.
            after_ev_id: Only events with a higher ev_id, to go on where another session stopped; None: all.
            fetch_qty: How many events come from the server at once, 1 or more.

        Raises:
            BatchNotFoundError: It is not open. Raised with the first event.

        Source: `sluice.batch_query`, whose query is run.
        """
        stream = logs.stream_batch_events(batch_id, after_ev_id=after_ev_id, fetch_qty=fetch_qty)
        async with aclosing(self._runner.stream(stream.query, stream.fetch_qty)) as pages:
            async for page in pages:
                for row in page:
                    yield stream.read_row(*row)

    async def get_batch_page(
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
        return await self._runner.run(logs.get_batch_page(batch_id, after_ev_id, qty))

    async def retry(self, batch_id: int, ev_ids: Sequence[int], *, delay: timedelta) -> int:
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
        return await self._runner.run(logs.retry(batch_id, ev_ids, delay=delay))

    async def tick(self) -> list[LogTick]:
        """Tick every log in which anything is new, whatever its settings say.

        Not those that are paused or ticked from outside. Cheap when nothing is new: made to be called many times a
        second.

        Returns:
            The ticks that were made.

        Source: `sluice.tick`.
        """
        return await self._runner.run(logs.tick())

    async def wake_groups(self) -> int:
        """Notify listeners of the logs whose share groups have something new to claim, without a tick.

        For a session that calls `tick` all the time, in between: it looks after the logs whose newest tick is its own.

        Returns:
            How many logs with share groups this session has ticked.

        Source: `sluice.wake_groups`.
        """
        return await self._runner.run(logs.wake_groups())

    async def maintain_groups(self, queue_name: str | None = None) -> list[GroupStep]:
        """Do for share groups what claims do in passing, and empty the ledgers of claims when they have grown.

        `rotate` does it too. It wakes who waits for a claim when an event's time has come to come again, so call it as
        often as that is to be noticed. Waits for no lock longer than a tenth of a second.

        Args:
            queue_name: An existing log; None: all.

        Returns:
            What was done, and for what was not, why. A group that is being claimed from needs nothing.

        Raises:
            LogNotFoundError: There is no such log.
            GroupStateError: The transaction is not READ COMMITTED.

        Source: `sluice.maintain_groups`.
        """
        return await self._runner.run(logs.maintain_groups(queue_name))

    async def rotate(self, queue_name: str | None = None) -> list[RotationStep]:
        """Let events go into another segment where it is time, and empty segments that nobody needs any more.

        Waits for no lock longer than a tenth of a second: what is in use is left to a later call.

        Args:
            queue_name: An existing log; None: all.

        Returns:
            What was done, and for what was not, why.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.rotate`.
        """
        return await self._runner.run(logs.rotate(queue_name))

    async def list_segments(self, queue_name: str) -> list[Segment]:
        """Return the segments of a log, by number: what they take, and who needs them.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.list_segments`.
        """
        return await self._runner.run(logs.list_segments(queue_name))

    async def list_consumers(self, queue_name: str | None = None) -> list[ConsumerState]:
        """Return how far behind consumers are and what they pin, by log and name; None means all logs.

        Source: `sluice.list_consumers`.
        """
        return await self._runner.run(logs.list_consumers(queue_name))

    async def set_log_policy(
        self,
        queue_name: str,
        *,
        max_lag_bytes: int | None = None,
        max_lag_events: int | None = None,
        max_lag_time: timedelta | None = None,
        keepers: Sequence[str] = (),
    ) -> None:
        """Say what a rotation does with consumers of a log that fall behind; replaces what was said before.

        Without a limit the log keeps everything for its consumers, and grows. One that is beyond a limit loses its
        position, so that its events can go: its next call raises PositionLostError.

        Args:
            queue_name: An existing log.
            max_lag_bytes: Give up a consumer that pins more, 1 or more.
            max_lag_events: Give up one that has more to read, 1 or more.
            max_lag_time: Give up one whose position is older.
            keepers: Consumers that are never given up. While one of them is not registered, nothing is emptied.

        Raises:
            LogNotFoundError: There is no such log.
            ArgumentError: A limit is not positive.

        Source: `sluice.set_log_policy`.
        """
        await self._runner.run(
            logs.set_log_policy(
                queue_name,
                max_lag_bytes=max_lag_bytes,
                max_lag_events=max_lag_events,
                max_lag_time=max_lag_time,
                keepers=keepers,
            )
        )

    async def list_log_policies(self) -> list[LogPolicy]:
        """Return the policy of each log, by name.

        Source: `sluice.list_log_policies`.
        """
        return await self._runner.run(logs.list_log_policies())

    async def after_restore(self, queue_name: str | None = None) -> list[RestoredLog]:
        """Repair logs after a dump of them was restored, whose transaction ids mean nothing in this server.

        Until then they are not ticked. Consumers and events keep their places. Physical copies and pg_upgrade
        need no repair.

        Args:
            queue_name: An existing log; None: all.

        Returns:
            The logs that were repaired; those that need none are left out. Of all logs, one that cannot be repaired is
            skipped, and its `events` is None.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.after_restore`.
        """
        return await self._runner.run(logs.after_restore(queue_name))

    async def log_tick(self, queue_name: str) -> int:
        """Tick one log now if anything is new, whatever its settings say.

        Returns:
            The newest tick_id, which covers all that was committed before the call.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The transaction is not READ COMMITTED.

        Source: `sluice.log_tick`.
        """
        return await self._runner.run(logs.log_tick(queue_name))

    async def listen_log(self, queue_name: str) -> str:
        """Let this session hear of each tick of a log, from the commit on; only on a connection.

        Returns:
            The channel's name.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.listen_log`.
        """
        return await self._runner.run(logs.listen_log(queue_name))

    async def unlisten_log(self, queue_name: str) -> None:
        """Hear no more of a log's ticks.

        Source: `sluice.unlisten_log`.
        """
        await self._runner.run(logs.unlisten_log(queue_name))

    async def create_queue(self, queue_name: str) -> bool:
        """Create an event log with its first tick.

        Returns:
            False when it existed.

        Source: PgQ 3.5.2 `pgq.create_queue`.
        """
        return await self._runner.run(pgq.create_queue(queue_name))

    async def drop_queue(self, queue_name: str, *, force: bool = False) -> None:
        """Drop an event log with its events.

        Args:
            queue_name: An existing log.
            force: Unregister its consumers too.

        Raises:
            LogNotFoundError: There is no such log.
            LogInUseError: It has consumers and `force` is False; they are named in the error's cause.

        Source: PgQ 3.5.2 `pgq.drop_queue`.
        """
        await self._runner.run(pgq.drop_queue(queue_name, force=force))

    async def set_queue_config(self, queue_name: str, param_name: str, param_value: str) -> None:
        """Change a setting of a log.

        Args:
            queue_name: An existing log.
            param_name: One of ticker_max_count, ticker_max_lag, ticker_idle_period, ticker_paused, rotation_period,
                external_ticker.
            param_value: As PostgreSQL reads it: `500`, `3 seconds`, `true`.

        Raises:
            LogNotFoundError: There is no such log.
            ArgumentError: There is no such setting.
            PayloadError: It cannot have this value.

        Source: PgQ 3.5.2 `pgq.set_queue_config`.
        """
        await self._runner.run(pgq.set_queue_config(queue_name, param_name, param_value))

    async def get_queue_info(self, queue_name: str | None = None) -> list[LogInfo]:
        """Return settings and state of one log, or of all, by name.

        Source: PgQ 3.5.2 `pgq.get_queue_info`.
        """
        return await self._runner.run(pgq.get_queue_info(queue_name))

    async def current_event_table(self, queue_name: str) -> str:
        """Return the table that events go into now, for a COPY in the same transaction.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log is closed for events.

        Source: PgQ 3.5.2 `pgq.current_event_table`; differences in sql/pgq/README.md.
        """
        return await self._runner.run(pgq.current_event_table(queue_name))

    async def insert_event(
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
        return await self._runner.run(
            pgq.insert_event(
                queue_name,
                ev_type,
                ev_data,
                ev_extra1=ev_extra1,
                ev_extra2=ev_extra2,
                ev_extra3=ev_extra3,
                ev_extra4=ev_extra4,
            )
        )

    async def register_consumer(self, queue_name: str, consumer_name: str) -> bool:
        """Subscribe a consumer, from the latest tick on.

        Returns:
            False when it was subscribed already; its position is kept.

        Raises:
            LogNotFoundError: There is no such log.

        Source: PgQ 3.5.2 `pgq.register_consumer`.
        """
        return await self._runner.run(pgq.register_consumer(queue_name, consumer_name))

    async def register_consumer_at(
        self, queue_name: str, consumer_name: str, tick_pos: int
    ) -> bool:
        """Subscribe a consumer from a tick on, or move it there; its open batch is closed.

        Args:
            queue_name: An existing log.
            consumer_name: Its name.
            tick_pos: A tick that the log still has: events after it come next.

        Returns:
            False when it was subscribed already, and was moved.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log has no such tick, or not any more.

        Source: PgQ 3.5.2 `pgq.register_consumer_at`.
        """
        return await self._runner.run(pgq.register_consumer_at(queue_name, consumer_name, tick_pos))

    async def unregister_consumer(self, queue_name: str, consumer_name: str) -> int:
        """Remove a consumer's subscription and its position, and those of its subconsumers.

        Returns:
            How many were removed; 0 when there was none.

        Source: PgQ 3.5.2 `pgq.unregister_consumer`.
        """
        return await self._runner.run(pgq.unregister_consumer(queue_name, consumer_name))

    async def get_consumer_info(
        self, queue_name: str | None = None, consumer_name: str | None = None
    ) -> list[ConsumerInfo]:
        """Return position and lag of consumers, by log and name; None for either means all.

        Source: PgQ 3.5.2 `pgq.get_consumer_info`.
        """
        return await self._runner.run(pgq.get_consumer_info(queue_name, consumer_name))

    async def ticker(self, queue_name: str) -> int | None:
        """Tick one log if it is time. Any number of processes may do so at once.

        Returns:
            The tick_id, or None when it is not time or another session ticks it.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: It is paused, ticked from outside, or the transaction is not READ COMMITTED.

        Source: PgQ 3.5.2 `pgq.ticker`; differences in sql/pgq/README.md.
        """
        return await self._runner.run(pgq.ticker(queue_name))

    async def ticker_all(self) -> int:
        """Tick every log whose time it is.

        Returns:
            How many were ticked.

        Source: PgQ 3.5.2 `pgq.ticker`.
        """
        return await self._runner.run(pgq.ticker_all())

    async def ticker_external(
        self, queue_name: str, tick_id: int, orig_timestamp: datetime, event_seq: int
    ) -> int:
        """Tick a log that is ticked from outside, as a copy of another log is.

        Args:
            queue_name: A log whose `queue_external_ticker` is set.
            tick_id: The other log's.
            orig_timestamp: When it was made there, with a time zone.
            event_seq: The last ev_id given out then.

        Returns:
            The tick_id.

        Raises:
            LogStateError: The log is not ticked from outside, or has this tick or a later one.

        Source: PgQ 3.5.2 `pgq.ticker`.
        """
        return await self._runner.run(
            pgq.ticker_external(queue_name, tick_id, orig_timestamp, event_seq)
        )

    async def force_tick(self, queue_name: str) -> int | None:
        """Let the next call of `ticker` tick, whatever the log's settings; it does not tick itself.

        Returns:
            The last tick_id there is; the one to come is higher.

        Source: PgQ 3.5.2 `pgq.force_tick`.
        """
        return await self._runner.run(pgq.force_tick(queue_name))

    async def maint_retry_events(self) -> int:
        """Move events that were asked for again, and whose time has come, back into their logs.

        Returns:
            How many were moved; call it again until it is 0.

        Source: PgQ 3.5.2 `pgq.maint_retry_events`.
        """
        return await self._runner.run(pgq.maint_retry_events())

    async def next_batch(self, queue_name: str, consumer_name: str) -> int | None:
        """Open the consumer's next batch, or return the one that is open.

        Returns:
            The batch_id, or None when no tick has come since the last batch.

        Raises:
            ConsumerNotFoundError: The consumer is not registered on this log.
            PositionLostError: Its position was given up.

        Source: PgQ 3.5.2 `pgq.next_batch`.
        """
        return await self._runner.run(pgq.next_batch(queue_name, consumer_name))

    async def next_batch_info(self, queue_name: str, consumer_name: str) -> OpenBatch | None:
        """Open the consumer's next batch as `next_batch` does, and return its ticks too.

        Raises:
            ConsumerNotFoundError: The consumer is not registered on this log.
            PositionLostError: Its position was given up.

        Source: PgQ 3.5.2 `pgq.next_batch_info`.
        """
        return await self._runner.run(pgq.next_batch_info(queue_name, consumer_name))

    async def next_batch_custom(
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
        return await self._runner.run(
            pgq.next_batch_custom(
                queue_name,
                consumer_name,
                min_lag=min_lag,
                min_count=min_count,
                min_interval=min_interval,
            )
        )

    async def get_batch_info(self, batch_id: int) -> BatchInfo | None:
        """Return whose open batch it is and its ticks; None when it is not open.

        Source: PgQ 3.5.2 `pgq.get_batch_info`.
        """
        return await self._runner.run(pgq.get_batch_info(batch_id))

    async def get_batch_events(self, batch_id: int) -> list[Event]:
        """Return the events of an open batch, by ev_id; the same each time until it is finished.

        All at once: see `stream_batch_events` for batches that may be large.

        Raises:
            BatchNotFoundError: It is not open.

        Source: PgQ 3.5.2 `pgq.get_batch_events`.
        """
        return await self._runner.run(pgq.get_batch_events(batch_id))

    async def event_retry(self, batch_id: int, ev_id: int, retry_after: int | datetime) -> bool:
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
        return await self._runner.run(pgq.event_retry(batch_id, ev_id, retry_after))

    async def batch_retry(self, batch_id: int, retry_seconds: int) -> int:
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
        return await self._runner.run(pgq.batch_retry(batch_id, retry_seconds))

    async def finish_batch(self, batch_id: int) -> bool:
        """Close a batch: the consumer moves behind its events.

        In the transaction of the consumer's own writes this makes their effect an exactly-once effect.

        Returns:
            False when it was not open: another session finished it.

        Raises:
            PositionLostError: The consumer's position was given up.

        Source: PgQ 3.5.2 `pgq.finish_batch`.
        """
        return await self._runner.run(pgq.finish_batch(batch_id))

    async def version(self) -> str:
        """Return the version of PgQ whose contract this is, and ours; it begins with `3.5`.

        Source: PgQ 3.5.2 `pgq.version`.
        """
        return await self._runner.run(pgq.version())

    async def register_subconsumer(
        self, queue_name: str, consumer_name: str, subconsumer_name: str
    ) -> bool:
        """Register a subconsumer, and its consumer if need be.

        Returns:
            False when it was registered already.

        Raises:
            LogNotFoundError: There is no such log.

        Source: pgq-coop 3.4 `pgq_coop.register_subconsumer`.
        """
        return await self._runner.run(
            pgq_coop.register_subconsumer(queue_name, consumer_name, subconsumer_name)
        )

    async def unregister_subconsumer(
        self,
        queue_name: str,
        consumer_name: str,
        subconsumer_name: str,
        *,
        close_batch: bool = False,
    ) -> int:
        """Remove a subconsumer.

        Args:
            queue_name: An existing log.
            consumer_name: Its consumer, which stays.
            subconsumer_name: The one to remove.
            close_batch: Close its open batch: nobody else gets those events.

        Returns:
            How many were removed, 0 or 1.

        Raises:
            LogStateError: It has an open batch and `close_batch` is False.

        Source: pgq-coop 3.4 `pgq_coop.unregister_subconsumer`.
        """
        return await self._runner.run(
            pgq_coop.unregister_subconsumer(
                queue_name, consumer_name, subconsumer_name, close_batch=close_batch
            )
        )

    async def coop_next_batch_custom(
        self,
        queue_name: str,
        consumer_name: str,
        subconsumer_name: str,
        *,
        min_lag: timedelta | None = None,
        min_count: int | None = None,
        min_interval: timedelta | None = None,
        dead_interval: timedelta | None = None,
    ) -> int | None:
        """Open a batch as `coop_next_batch` does, collected as `next_batch_custom` does.

        Returns:
            The batch_id, or None when there is nothing to do.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The consumer itself has a batch open.

        Source: pgq-coop 3.4 `pgq_coop.next_batch_custom`.
        """
        return await self._runner.run(
            pgq_coop.next_batch_custom(
                queue_name,
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
        queue_name: str,
        consumer_name: str,
        subconsumer_name: str,
        *,
        dead_interval: timedelta | None = None,
    ) -> int | None:
        """Open the subconsumer's next batch, or return the one that is open. Registers it if need be.

        Args:
            queue_name: An existing log.
            consumer_name: The consumer whose events are shared out.
            subconsumer_name: The one that asks.
            dead_interval: Take over the batch of a subconsumer that was not active for so long; None: of nobody.

        Returns:
            The batch_id, or None when there is nothing to do.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The consumer itself has a batch open.

        Source: pgq-coop 3.4 `pgq_coop.next_batch`; differences in sql/pgq/README.md.
        """
        return await self._runner.run(
            pgq_coop.next_batch(
                queue_name, consumer_name, subconsumer_name, dead_interval=dead_interval
            )
        )

    async def coop_finish_batch(self, batch_id: int) -> bool:
        """Close a subconsumer's batch.

        Returns:
            False when it was not open, as after another subconsumer took it over.

        Source: pgq-coop 3.4 `pgq_coop.finish_batch`.
        """
        return await self._runner.run(pgq_coop.finish_batch(batch_id))

    async def insert_events(self, queue_name: str, events: Sequence[NewEvent]) -> list[int]:
        """Append events; consumers get them after the commit and the tick that follows.

        Args:
            queue_name: An existing log.
            events: Any number; they are sent in one statement, so it has to fit into memory here and on the server.

        Returns:
            Their ev_ids, in the order of the events.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log is closed for events, or takes fewer of them from one transaction.
            PayloadError: A field is no text that PostgreSQL can store. Nothing was inserted.

        Source: `sluice.insert_events`.
        """
        return await self._runner.run(producing.insert_events(queue_name, events))

    async def insert_many(self, queue_name: str, events: Iterable[NewEvent]) -> int:
        """Append any number of events, by COPY where there are many.

        All of them are appended, or none: on a pool, or in autocommit mode, they are a transaction of their own. When
        this fails in a transaction of the caller's, that has to be rolled back.

        Args:
            queue_name: An existing log.
            events: Taken one by one, so that it may be a generator over more than fits into memory. It must not use
                this connection.

        Returns:
            How many there were.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log is closed for events. Its limit of events per transaction holds for fewer than
                200 of them: a COPY is not counted.
            PayloadError: A field is no text that PostgreSQL can store. Nothing was inserted.

        Source: `sluice.insert_events` and `pgq.current_event_table`.
        """
        return await self._runner.run_or_copy(producing.insert_many(queue_name, events))

    async def list_groups(self, queue_name: str | None = None) -> list[GroupInfo]:
        """Return the share groups of one log, or of all, by log and name: settings, and how far behind they are.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.list_groups`.
        """
        return await self._runner.run(share_groups.list_groups(queue_name))

    async def list_extra_maint(self) -> list[ExtraMaintenance]:
        """Return the functions that logs name in `queue_extra_maint`, in the order in which they are to be called.

        Source: `sluice.list_extra_maint`.
        """
        return await self._runner.run(upkeep.list_extra_maint())

    async def run_extra_maint(self, queue_name: str, function_name: str) -> bool:
        """Call a function that a log names in `queue_extra_maint`, with the log's name and this session's rights.

        Returns:
            Whether it was called; False when the log does not name it.

        Raises:
            SluiceError: What the function raises.

        Source: `sluice.run_extra_maint`.
        """
        return await self._runner.run(upkeep.run_extra_maint(queue_name, function_name))
