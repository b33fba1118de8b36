"""The functions of schema `sluice` about event logs, as calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta
from typing import LiteralString

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, nothing, record, scalar
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


def hold_batch(batch_id: int) -> Call[None]:
    return Call("select sluice.hold_batch(%s::bigint)", (batch_id,), nothing)


def batch_query(batch_id: int, after_ev_id: int | None) -> Call[str]:
    return Call(
        "select sluice.batch_query(%s::bigint, %s::text[], %s::bigint)",
        (batch_id, [field.name for field in fields(Event)], after_ev_id),
        scalar,
    )


def get_batch_page(batch_id: int, after_ev_id: int | None, qty: int) -> Call[list[Event]]:
    sql: LiteralString = "select * from sluice.get_batch_page(%s::bigint, %s::bigint, %s::integer)"
    return Call(sql, (batch_id, after_ev_id, whole(qty, "qty", 1)), record(Event))


def retry(batch_id: int, ev_ids: Sequence[int], delay: timedelta) -> Call[int]:
    return Call(
        "select sluice.retry(%s::bigint, %s::bigint[], %s::interval)",
        (batch_id, list(ev_ids), delay),
        scalar,
    )


def tick() -> Call[list[LogTick]]:
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


def wake_groups() -> Call[int]:
    return Call("select sluice.wake_groups()", (), scalar)


def maintain_groups(queue_name: str | None) -> Call[list[GroupStep]]:
    return Call("select * from sluice.maintain_groups(%s::text)", (queue_name,), record(GroupStep))


def rotate(queue_name: str | None) -> Call[list[RotationStep]]:
    return Call("select * from sluice.rotate(%s::text)", (queue_name,), record(RotationStep))


def list_segments(queue_name: str) -> Call[list[Segment]]:
    return Call("select * from sluice.list_segments(%s::text)", (queue_name,), record(Segment))


def list_consumers(queue_name: str | None) -> Call[list[ConsumerState]]:
    return Call(
        "select * from sluice.list_consumers(%s::text)", (queue_name,), record(ConsumerState)
    )


def set_log_policy(
    queue_name: str,
    max_lag_bytes: int | None,
    max_lag_events: int | None,
    max_lag_time: timedelta | None,
    keepers: Sequence[str],
) -> Call[None]:
    return Call(
        "select sluice.set_log_policy(%s::text, %s::bigint, %s::bigint, %s::interval, %s::text[])",
        (queue_name, max_lag_bytes, max_lag_events, max_lag_time, list(keepers)),
        nothing,
    )


def list_log_policies() -> Call[list[LogPolicy]]:
    return Call("select * from sluice.list_log_policies()", (), record(LogPolicy))


def after_restore(queue_name: str | None) -> Call[list[RestoredLog]]:
    return Call("select * from sluice.after_restore(%s::text)", (queue_name,), record(RestoredLog))


def log_tick(queue_name: str) -> Call[int]:
    return Call("select sluice.log_tick(%s::text)", (queue_name,), scalar)


def listen_log(queue_name: str) -> Call[str]:
    return Call("select sluice.listen_log(%s::text)", (queue_name,), scalar)


def unlisten_log(queue_name: str) -> Call[None]:
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
