"""The functions of schema `sluice` about event logs, as calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta
from typing import LiteralString

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, Stream, nothing, record, scalar
from pgsluice.client.calls.clients import EventLog, method
from pgsluice.client.log_records import (
    ConsumerState,
    Event,
    GroupStep,
    LogPolicy,
    LogTick,
    RestoredLog,
    RotationStep,
    Segment,
)


@method(EventLog)
def hold_batch(batch_id: int) -> Call[None]:
    """Keep every other session off an open batch until the end of this transaction. Never waits.

    Call it first in the transaction that also finishes the batch: no other session can process the batch meanwhile.

    Raises:
        BatchNotFoundError: It is not open.
        LogStateError: Another session processes it.

    Source: `sluice.hold_batch`.
    """
    return Call("select sluice.hold_batch(%s::bigint)", (batch_id,), nothing)


@method(EventLog)
def stream_batch_events(
    batch_id: int, *, after_ev_id: int | None = None, fetch_qty: int = 1000
) -> Stream[Event]:
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
    sql: LiteralString = "select * from sluice.get_batch_page(%s::bigint, %s::bigint, %s::integer)"
    return Call(sql, (batch_id, after_ev_id, whole(qty, "qty", 1)), record(Event))


@method(EventLog)
def retry(batch_id: int, ev_ids: Sequence[int], *, delay: timedelta) -> Call[int]:
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
    return Call(
        "select sluice.retry(%s::bigint, %s::bigint[], %s::interval)",
        (batch_id, list(ev_ids), delay),
        scalar,
    )


@method(EventLog)
def tick() -> Call[list[LogTick]]:
    """Tick every log in which anything is new, whatever its settings say.

    Not those that are paused or ticked from outside. Cheap when nothing is new: made to be called many times a
    second.

    Returns:
        The ticks that were made.

    Source: `sluice.tick`.
    """
    return Call("select * from sluice.tick()", (), record(LogTick))


def tick_page(after: str) -> Call[tuple[str, list[LogTick]]]:
    """Tick one page of logs: `after` and the first value returned name a place, `>` is the first and the last."""
    # The place is set before the function reads it, and read when the function has returned.
    return Call(
        "select current_setting('sluice.tick_after'), t.queue_name, t.tick_id "
        "from (select set_config('sluice.tick_after', %s::text, false) offset 0) as place (after) "
        "left join lateral (select ticked.* from sluice.tick() as ticked where place.after is not null) as t on true",
        (after,),
        lambda rows: (
            rows[0][0],
            [LogTick(name, tick) for _, name, tick in rows if tick is not None],
        ),
    )


def rotate_page(after: str) -> Call[tuple[str, list[RotationStep]]]:
    """Rotate one page of logs; as `tick_page`."""
    return Call(
        "select current_setting('sluice.rotate_after'), r.log_name, r.segment, r.action, r.reason "
        "from (select set_config('sluice.rotate_after', %s::text, false) offset 0) as place (after) "
        "left join lateral (select rotated.* from sluice.rotate() as rotated where place.after is not null) as r "
        "on true",
        (after,),
        lambda rows: (rows[0][0], [RotationStep(*row) for _, *row in rows if row[2] is not None]),
    )


@method(EventLog)
def wake_groups() -> Call[int]:
    """Notify listeners of the logs whose share groups have something new to claim, without a tick.

    For a session that calls `tick` all the time, in between: it looks after the logs whose newest tick is its own.

    Returns:
        How many logs with share groups this session has ticked.

    Source: `sluice.wake_groups`.
    """
    return Call("select sluice.wake_groups()", (), scalar)


@method(EventLog)
def maintain_groups(queue_name: str | None = None) -> Call[list[GroupStep]]:
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
    return Call("select * from sluice.maintain_groups(%s::text)", (queue_name,), record(GroupStep))


@method(EventLog)
def rotate(queue_name: str | None = None) -> Call[list[RotationStep]]:
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
    return Call("select * from sluice.rotate(%s::text)", (queue_name,), record(RotationStep))


@method(EventLog)
def list_segments(queue_name: str) -> Call[list[Segment]]:
    """Return the segments of a log, by number: what they take, and who needs them.

    Raises:
        LogNotFoundError: There is no such log.

    Source: `sluice.list_segments`.
    """
    return Call("select * from sluice.list_segments(%s::text)", (queue_name,), record(Segment))


@method(EventLog)
def list_consumers(queue_name: str | None = None) -> Call[list[ConsumerState]]:
    """Return how far behind consumers are and what they pin, by log and name; None means all logs.

    Source: `sluice.list_consumers`.
    """
    return Call(
        "select * from sluice.list_consumers(%s::text)", (queue_name,), record(ConsumerState)
    )


@method(EventLog)
def set_log_policy(
    queue_name: str,
    *,
    max_lag_bytes: int | None = None,
    max_lag_events: int | None = None,
    max_lag_time: timedelta | None = None,
    keepers: Sequence[str] = (),
) -> Call[None]:
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
    return Call(
        "select sluice.set_log_policy(%s::text, %s::bigint, %s::bigint, %s::interval, %s::text[])",
        (queue_name, max_lag_bytes, max_lag_events, max_lag_time, list(keepers)),
        nothing,
    )


@method(EventLog)
def list_log_policies() -> Call[list[LogPolicy]]:
    """Return the policy of each log, by name.

    Source: `sluice.list_log_policies`.
    """
    return Call("select * from sluice.list_log_policies()", (), record(LogPolicy))


@method(EventLog)
def after_restore(queue_name: str | None = None) -> Call[list[RestoredLog]]:
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
    return Call("select * from sluice.after_restore(%s::text)", (queue_name,), record(RestoredLog))


@method(EventLog)
def log_tick(queue_name: str) -> Call[int]:
    """Tick one log now if anything is new, whatever its settings say.

    Returns:
        The newest tick_id, which covers all that was committed before the call.

    Raises:
        LogNotFoundError: There is no such log.
        LogStateError: The transaction is not READ COMMITTED.

    Source: `sluice.log_tick`.
    """
    return Call("select sluice.log_tick(%s::text)", (queue_name,), scalar)


@method(EventLog)
def listen_log(queue_name: str) -> Call[str]:
    """Let this session hear of each tick of a log, from the commit on; only on a connection.

    Returns:
        The channel's name.

    Raises:
        LogNotFoundError: There is no such log.

    Source: `sluice.listen_log`.
    """
    return Call("select sluice.listen_log(%s::text)", (queue_name,), scalar)


@method(EventLog)
def unlisten_log(queue_name: str) -> Call[None]:
    """Hear no more of a log's ticks.

    Source: `sluice.unlisten_log`.
    """
    return Call("select sluice.unlisten_log(%s::text)", (queue_name,), nothing)


def log_channel(queue_name: str) -> Call[str]:
    return Call("select sluice.log_channel(%s::text)", (queue_name,), scalar)


# What a consumer's process runs: it waits for another session of its name no longer than lock_timeout. The setting ends
# with the statement's transaction, and the case makes the server set it first.
def open_batch(
    queue_name: str,
    consumer_name: str,
    collect: tuple[timedelta | None, int | None, timedelta | None],
    lock_timeout_ms: int,
) -> Call[int | None]:
    sql: LiteralString = (
        "select b.batch_id from set_config('lock_timeout', %s::text, true) as waiting (lock_timeout), "
        "lateral pgq.next_batch_custom(case when waiting.lock_timeout is not null then %s::text end, "
        "%s::text, %s::interval, %s::integer, %s::interval) as b"
    )
    return Call(sql, (f"{lock_timeout_ms}ms", queue_name, consumer_name, *collect), scalar)


def open_coop_batch(
    queue_name: str,
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
    of = (queue_name, consumer_name, subconsumer_name)
    return Call(sql, (f"{lock_timeout_ms}ms", *of, *collect, dead_interval), scalar)
