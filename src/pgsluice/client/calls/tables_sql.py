"""Statements of `tables`; {queue}, {archive} and {ids} are a queue's table, its archive and its id sequence."""

from __future__ import annotations

from typing import LiteralString


def _with(statement: LiteralString, **parts: LiteralString) -> LiteralString:
    """Return a statement with these parts substituted; other {part}s stay."""
    for name, part in parts.items():
        statement = statement.replace("{" + name + "}", part)
    return statement


CREATE: tuple[LiteralString, ...] = (
    """create table if not exists {queue} (
        msg_id bigint generated always as identity primary key,
        read_ct integer not null default 0,
        enqueued_at timestamptz not null default pg_catalog.now(),
        last_read_at timestamptz,
        vt timestamptz not null,
        message jsonb,
        headers jsonb
    )""",
    """create table if not exists {archive} (
        msg_id bigint primary key,
        read_ct integer not null default 0,
        enqueued_at timestamptz not null default pg_catalog.now(),
        last_read_at timestamptz,
        archived_at timestamptz not null default pg_catalog.now(),
        vt timestamptz not null,
        message jsonb,
        headers jsonb
    )""",
    "create index if not exists {ready_index} on {queue} (msg_id) where vt <= enqueued_at",
    "create index if not exists {vt_index} on {queue} (vt, msg_id) where vt > enqueued_at",
    "create index if not exists {archived_at_index} on {archive} (archived_at)",
)

_COUNTING: LiteralString = "grant select (msg_id, read_ct, enqueued_at, last_read_at, vt) on "
# As in pgmq._grant_queue.
GRANTS: dict[str, tuple[LiteralString, ...]] = {
    "sluice_admin": (
        "grant select, insert, update, delete, truncate on {queue} to sluice_admin",
        "grant select, insert, update, delete, truncate on {archive} to sluice_admin",
        "grant select on sequence {ids} to sluice_admin",
    ),
    "sluice_writer": (
        "grant insert on {queue} to sluice_writer",
        "grant select (msg_id) on {queue} to sluice_writer",
    ),
    "sluice_reader": (
        "grant select, update, delete on {queue} to sluice_reader",
        "grant select, insert on {archive} to sluice_reader",
        "grant select on sequence {ids} to sluice_reader",
    ),
    "sluice_monitor": (
        _COUNTING + "{queue} to sluice_monitor",
        _COUNTING + "{archive} to sluice_monitor",
        "grant select on sequence {ids} to sluice_monitor",
    ),
}

LIST_QUEUES: LiteralString = (
    "select m.queue_name, m.is_partitioned, m.is_unlogged, m.created_at from pgmq.meta as m "
    "order by m.queue_name"
)

METRICS: LiteralString = """
select
    %s::text,
    pg_catalog.count(*),
    greatest(least(
        extract(epoch from pg_catalog.now())
        - extract(epoch from pg_catalog.max(queued.enqueued_at) filter (where pg_catalog.isfinite(queued.enqueued_at))),
        2147483647
    ), -2147483647)::integer,
    greatest(least(
        extract(epoch from pg_catalog.now())
        - extract(epoch from pg_catalog.min(queued.enqueued_at) filter (where pg_catalog.isfinite(queued.enqueued_at))),
        2147483647
    ), -2147483647)::integer,
    (select case when ids.is_called then ids.last_value else 0 end from {ids} as ids),
    pg_catalog.now(),
    pg_catalog.count(*) filter (where queued.vt <= pg_catalog.now()),
    null::bigint
from {queue} as queued
"""

# Without a delay, vt equals enqueued_at, now(), which makes the message ready instead of deferred. A delay counts from
# the call, not from now(), the start of the transaction.
_LATER: LiteralString = (
    "pg_catalog.clock_timestamp() + pg_catalog.make_interval(secs => %s::integer)"
)
_SEND: LiteralString = "insert into {queue} (vt, message, headers) values ({vt}, %s::jsonb, %s::jsonb) returning msg_id"
SEND = _with(_SEND, vt="pg_catalog.now()")
SEND_LATER = _with(_SEND, vt=_LATER)
SEND_AT = _with(_SEND, vt="%s::timestamptz")

# Inserting in the order of the array assigns the ids in that order.
_SEND_BATCH: LiteralString = """
insert into {queue} (vt, message, headers)
select {vt}, item.message, item.headers
from unnest(%s::jsonb[], %s::jsonb[]) with ordinality as item (message, headers, position)
order by item.position
returning msg_id
"""
SEND_BATCH = _with(_SEND_BATCH, vt="pg_catalog.now()")
SEND_BATCH_LATER = _with(_SEND_BATCH, vt=_LATER)
SEND_BATCH_AT = _with(_SEND_BATCH, vt="%s::timestamptz")

# Locks the ready messages with the lowest ids, and of the 1,000 deferred messages that were due first, those with the
# lowest ids. The clock is read once in its own CTE: a volatile function in the query could not use an index. Parameters
# come from the same row, so that the plan does not depend on their values.
_CLAIM: LiteralString = """
with given as materialized (
    select pg_catalog.clock_timestamp() as now, %s::integer as qty{more}
),
claimed as materialized (
    select candidate.msg_id
    from (
        select ready.msg_id
        from (
            select queued.msg_id
            from {queue} as queued
            where queued.vt <= queued.enqueued_at
              and queued.vt <= (select given.now from given){contains}
            order by queued.msg_id
            limit (select given.qty from given)
            for update skip locked
        ) as ready
        union all
        select due.msg_id
        from (
            select queued.msg_id
            from {queue} as queued
            where queued.msg_id = any (array(
                    select deferred.msg_id
                    from {queue} as deferred
                    where deferred.vt > deferred.enqueued_at
                      and deferred.vt <= (select given.now from given)
                    order by deferred.vt
                    limit (select greatest(given.qty, 1000) from given)
                ))
              and queued.vt <= (select given.now from given){contains}
            order by queued.msg_id
            limit (select given.qty from given)
            for update skip locked
        ) as due
    ) as candidate
    order by candidate.msg_id
    limit (select given.qty from given)
),
taken as (
    {take}
    where queued.msg_id = any (array(select claimed.msg_id from claimed))
    returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
        queued.message, queued.headers
)
select * from taken order by taken.msg_id
"""
_READ: LiteralString = _with(
    _CLAIM,
    more=", pg_catalog.make_interval(secs => %s::integer) as timeout{more}",
    take="""update {queue} as queued
    set last_read_at = given.now,
        vt = given.now + given.timeout,
        read_ct = least(queued.read_ct::bigint + 1, 2147483647)::integer
    from given""",
)
_CONTAINS: LiteralString = (
    "\n              and queued.message @> (select given.conditional from given)"
)
# A crash that loses a read only leaves its message visible.
_ASYNCHRONOUS: LiteralString = ", pg_catalog.set_config('synchronous_commit', 'off', true)"
READ = _with(_READ, more="", contains="")
READ_OWN_TRANSACTION = _with(_READ, more=_ASYNCHRONOUS, contains="")
READ_CONDITIONAL = _with(_READ, more=", %s::jsonb as conditional", contains=_CONTAINS)
READ_CONDITIONAL_OWN_TRANSACTION = _with(
    _READ, more=", %s::jsonb as conditional" + _ASYNCHRONOUS, contains=_CONTAINS
)
POP = _with(_CLAIM, more="", contains="", take="delete from {queue} as queued")

DELETE: LiteralString = "delete from {queue} where msg_id = %s::bigint returning msg_id"
DELETE_BATCH: LiteralString = (
    "with deleted as (delete from {queue} where msg_id = any (%s::bigint[]) returning msg_id) "
    "select deleted.msg_id from deleted order by deleted.msg_id"
)

_ARCHIVE: LiteralString = """
with moved as (
    delete from {queue}
    where {which}
    returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
),
archived as (
    insert into {archive} (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
    select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
    from moved
    returning msg_id
)
select archived.msg_id from archived order by archived.msg_id
"""
_SET_VT: LiteralString = """
with changed as (
    update {queue}
    set vt = {vt}
    where {which}
    returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers
)
select * from changed order by changed.msg_id
"""
_ONE: LiteralString = "msg_id = %s::bigint"
_MANY: LiteralString = "msg_id = any (%s::bigint[])"
ARCHIVE = _with(_ARCHIVE, which=_ONE)
ARCHIVE_BATCH = _with(_ARCHIVE, which=_MANY)
SET_VT = _with(_SET_VT, vt=_LATER, which=_ONE)
SET_VT_AT = _with(_SET_VT, vt="%s::timestamptz", which=_ONE)
SET_VT_BATCH = _with(_SET_VT, vt=_LATER, which=_MANY)
SET_VT_BATCH_AT = _with(_SET_VT, vt="%s::timestamptz", which=_MANY)
