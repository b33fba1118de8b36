"""Event logs: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import LiteralString

from pgsluice.client.calls.arguments import checked_id, checked_ids, whole, zoned_time
from pgsluice.client.calls.call import Call, Stream, nothing, record, row, scalar
from pgsluice.client.calls.clients import EventLog, method
from pgsluice.client.log_records import (
    BrowsedEvent,
    ConsumerState,
    Event,
    EventPosition,
    GroupStep,
    LogState,
    LogTick,
    RestoredLog,
    RotationStep,
    Segment,
)


@method(EventLog)
def hold_batch(batch_id: int) -> Call[None]:
    """Lock an open batch against other sessions until the end of this transaction. Never waits.

    Call it first in the transaction that finishes the batch, so that no other session processes the batch
    concurrently.

    Raises:
        BatchNotFoundError: The batch is not open.
        LogStateError: Another session is processing the batch.

    Source: `sluice.hold_batch`.
    """
    return Call("select sluice.hold_batch(%s::bigint)", (batch_id,), nothing)


@method(EventLog)
def stream_batch_events(
    batch_id: int, *, after_ev_id: int | None = None, fetch_qty: int = 1000
) -> Stream[Event]:
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
    query: Call[str] = Call(
        "select sluice.batch_query(%s::bigint, %s::text[], %s::bigint)",
        (batch_id, [field.name for field in fields(Event)], after_ev_id),
        scalar,
    )
    return Stream(query, whole(fetch_qty, "fetch_qty", 1), Event)


@method(EventLog)
def get_batch_page(
    batch_id: int, after_ev_id: int | None = None, qty: int = 1000
) -> Call[list[Event]]:
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
    sql: LiteralString = "select * from sluice.get_batch_page(%s::bigint, %s::bigint, %s::integer)"
    return Call(sql, (batch_id, after_ev_id, whole(qty, "qty", 1)), record(Event))


@method(EventLog)
def retry(batch_id: int, ev_ids: Sequence[int], *, delay: timedelta) -> Call[int]:
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
    return Call(
        "select sluice.retry(%s::bigint, %s::bigint[], %s::interval)",
        (batch_id, checked_ids(ev_ids, "ev_ids"), delay),
        scalar,
    )


@method(EventLog)
def tick() -> Call[list[LogTick]]:
    """Tick every log with new events, regardless of its ticker settings.

    Skips logs that are paused or ticked externally. Cheap if nothing is new, so it can be called many times per
    second.

    Returns:
        The new ticks.

    Source: `sluice.tick`.
    """
    return Call("select * from sluice.tick()", (), record(LogTick))


def tick_page(after: str) -> Call[tuple[str, list[LogTick]]]:
    """Tick one page of logs; `after` and the first value returned are positions, `>` is both start and end."""
    # Order matters: set the position before the function runs, read it after the function has returned.
    return Call(
        "select current_setting('sluice.tick_after'), t.log_name, t.tick_id "
        "from (select set_config('sluice.tick_after', %s::text, false) offset 0) as place (after) "
        "left join lateral (select ticked.* from sluice.tick() as ticked where place.after is not null) as t on true",
        (after,),
        lambda rows: (
            rows[0][0],
            [LogTick(name, tick) for _, name, tick in rows if tick is not None],
        ),
    )


def rotate_page(after: str) -> Call[tuple[str, list[RotationStep]]]:
    """Rotate one page of logs; positions as in `tick_page`."""
    return Call(
        "select current_setting('sluice.rotate_after'), r.log_name, r.segment, r.action, r.reason "
        "from (select set_config('sluice.rotate_after', %s::text, false) offset 0) as place (after) "
        "left join lateral (select rotated.* from sluice.rotate() as rotated where place.after is not null) as r "
        "on true",
        (after,),
        lambda rows: (rows[0][0], [RotationStep(*row) for _, *row in rows if row[2] is not None]),
    )


def await_groups(wait_s: float, pause_s: float) -> Call[tuple[int, int]]:
    """Notify listeners of logs whose share groups have new events, without a tick; look every `pause_s` until then.

    Covers the logs whose newest tick this session made.

    Returns:
        The number of logs with share groups that this session has ticked, and of those with new events.
    """
    # A notification is a commit, whose flush delays it. A crash may lose it: then every listener reconnects anyway.
    return Call(
        "select w.logs, w.woken from pg_catalog.set_config('synchronous_commit', 'off', true), "
        "sluice.await_groups(make_interval(secs => %s::float8), make_interval(secs => %s::float8)) as w",
        (wait_s, pause_s),
        row,
    )


def maintain_groups() -> Call[list[GroupStep]]:
    """Maintain idle share groups as claims do implicitly, and truncate the claim ledgers when they have grown.

    It also wakes consumers when a retry becomes due, so its interval bounds the delay of retries in idle groups. Waits
    at most 100 ms for a lock. `rotate` includes it.
    """
    return Call("select * from sluice.maintain_groups(null)", (), record(GroupStep))


@method(EventLog)
def rotate(log_name: str | None = None) -> Call[list[RotationStep]]:
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
    return Call("select * from sluice.rotate(%s::text)", (log_name,), record(RotationStep))


@method(EventLog)
def list_segments(log_name: str) -> Call[list[Segment]]:
    """Return the segments of a log, by number, with their size and the consumers that need them.

    Raises:
        LogNotFoundError: The log does not exist.

    Source: `sluice.list_segments`.
    """
    return Call("select * from sluice.list_segments(%s::text)", (log_name,), record(Segment))


@method(EventLog)
def list_consumers(log_name: str | None = None) -> Call[list[ConsumerState]]:
    """Return the lag of consumers and the storage they pin, by log and name; None means all logs.

    Source: `sluice.list_consumers`.
    """
    return Call("select * from sluice.list_consumers(%s::text)", (log_name,), record(ConsumerState))


@method(EventLog)
def browse_events(
    log_name: str,
    *,
    from_ev_txid: int | None = None,
    from_ev_id: int | None = None,
    backward: bool = False,
    qty: int = 100,
    length_max: int | None = None,
) -> Call[list[BrowsedEvent]]:
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
    sql: LiteralString = (
        "select ev_id, ev_time, ev_txid::text::bigint, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, "
        "ev_extra4, data_bytes from sluice.browse_events("
        "%s::text, %s::text::xid8, %s::bigint, %s::boolean, %s::integer, %s::integer)"
    )
    position = (None if from_ev_txid is None else str(from_ev_txid), from_ev_id)
    parameters = (log_name, *position, backward, whole(qty, "qty", 1), length_max)
    return Call(sql, parameters, record(BrowsedEvent))


@method(EventLog)
def event_position(
    log_name: str, of_ev_id: int | None = None, *, moment: datetime | None = None
) -> Call[EventPosition | None]:
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
    return Call(
        "select p.ev_txid::text::bigint, p.ev_id "
        "from sluice.event_position(%s::text, %s::bigint, %s::timestamptz) as p",
        (
            log_name,
            None if of_ev_id is None else checked_id(of_ev_id, "of_ev_id"),
            zoned_time(moment, "moment"),
        ),
        lambda rows: None if rows[0][0] is None else EventPosition(*rows[0]),
    )


@method(EventLog)
def list_log_states(
    *, after_name: str = "", qty: int = 1000, search: str = ""
) -> Call[list[LogState]]:
    """Return the figures of event logs by name.

    Args:
        after_name: Only logs whose name sorts after this one; for paging.
        qty: Maximum number of logs.
        search: Only logs whose name contains this text; upper and lower case are equal.

    Source: `sluice.list_log_states`.
    """
    return Call(
        "select * from sluice.list_log_states(%s::text, %s::integer, %s::text)",
        (after_name, whole(qty, "qty", 1), search),
        record(LogState),
    )


@method(EventLog)
def after_restore(log_name: str | None = None) -> Call[list[RestoredLog]]:
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
    return Call("select * from sluice.after_restore(%s::text)", (log_name,), record(RestoredLog))


@method(EventLog)
def log_tick(log_name: str) -> Call[int]:
    """Tick one log now if it has new events, regardless of its ticker settings.

    Returns:
        The newest tick_id, which covers all events committed before the call.

    Raises:
        LogNotFoundError: The log does not exist.
        LogStateError: The transaction is not READ COMMITTED.

    Source: `sluice.log_tick`.
    """
    return Call("select sluice.log_tick(%s::text)", (log_name,), scalar)


@method(EventLog)
def listen_log(log_name: str) -> Call[str]:
    """Listen for ticks of a log in this session, from the commit on; needs a connection instead of a pool.

    Returns:
        The name of the channel.

    Raises:
        LogNotFoundError: The log does not exist.

    Source: `sluice.listen`.
    """
    return Call("select sluice.listen(%s::text, 'log'::text)", (log_name,), scalar)


@method(EventLog)
def unlisten_log(log_name: str) -> Call[None]:
    """Stop listening for ticks of a log.

    Source: `sluice.unlisten`.
    """
    return Call("select sluice.unlisten(%s::text, 'log'::text)", (log_name,), nothing)


# For workers: waits for another session of the same consumer no longer than lock_timeout. The setting ends with the
# statement's transaction, and the case expression makes the server apply it first.
def open_batch(
    log_name: str,
    consumer_name: str,
    collect: tuple[timedelta | None, int | None, timedelta | None],
    lock_timeout_ms: int,
) -> Call[int | None]:
    sql: LiteralString = (
        "select b.batch_id from set_config('lock_timeout', %s::text, true) as waiting (lock_timeout), "
        "lateral pgq.next_batch_custom(case when waiting.lock_timeout is not null then %s::text end, "
        "%s::text, %s::interval, %s::integer, %s::interval) as b"
    )
    return Call(sql, (f"{lock_timeout_ms}ms", log_name, consumer_name, *collect), scalar)


def open_coop_batch(
    log_name: str,
    consumer_name: str,
    subconsumer_name: str,
    collect: tuple[timedelta | None, int | None, timedelta | None],
    dead_interval: timedelta | None,
    lock_timeout_ms: int,
) -> Call[int | None]:
    sql: LiteralString = (
        "select b.batch_id from set_config('lock_timeout', %s::text, true) as waiting (lock_timeout), "
        "lateral pgq_coop.next_batch_custom(case when waiting.lock_timeout is not null then %s::text end, "
        "%s::text, %s::text, %s::interval, %s::integer, %s::interval, %s::interval) as b (batch_id)"
    )
    of = (log_name, consumer_name, subconsumer_name)
    return Call(sql, (f"{lock_timeout_ms}ms", *of, *collect, dead_interval), scalar)
