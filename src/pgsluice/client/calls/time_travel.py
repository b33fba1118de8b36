"""Move stored times into the past, so that tests need not wait. For databases of tests only.

Statements and no functions, so that no installation has a function that makes leases expire.
"""

from __future__ import annotations

from datetime import timedelta
from typing import LiteralString

from pgsluice.client.calls.call import Call, Steps, record, scalar
from pgsluice.client.schedule_records import FiredSlot
from pgsluice.errors import ArgumentError

# In each round a schedule fires up to ten slots.
_ROUNDS_MAX = 1000
_PENDING: LiteralString = """
with pass as (
    select p.* from pgq.retry_pass as p order by p.pass_id desc limit 1
), pending as (
    select e.tableoid, e.ctid
    from pgq.retry_entry as e
    cross join pass
    where not (
            pg_catalog.pg_visible_in_snapshot(e.entry_txid, pass.pass_snapshot)
            and (e.ev_retry_after, e.entry_id) <= (pass.pass_time, pass.pass_entry)
        )
      and (
          e.tableoid <> pg_catalog.format('pgq.retry_entry_%%s', 1 - pass.pass_table)::regclass
          or (e.ev_retry_after, e.entry_id) > (pass.copied_time, pass.copied_entry)
      )
)
"""


def advance(by: timedelta) -> Steps[list[FiredSlot]]:
    """Move the times of waiting messages, events and schedules, as if the server's clock had advanced; fire schedules.

    Args:
        by: More than 0.

    Returns:
        The slots that became due.

    Raises:
        ArgumentError: `by` is not positive.
        PrivilegeError: The role does not own the schemas, and is no superuser.
    """
    if not isinstance(by, timedelta) or by <= timedelta(0):
        raise ArgumentError(f"by is {by!r}; pass a positive timedelta")
    yield _move_messages(by)
    yield _append_due(by)
    yield _move_entries(by)
    fired: list[FiredSlot] = []
    for _ in range(_ROUNDS_MAX):
        slots: list[FiredSlot] = yield _fire(by)
        if not slots:
            break
        fired += slots
    yield _move_schedules(by)
    return fired


def _move_messages(by: timedelta) -> Call[int]:
    sql: LiteralString = """
        select count(*)
        from pgmq.list_queues() as q
        cross join lateral sluice.browse(
            q.queue_name::text, 'queue'::text, null::bigint, 2147483647, null::jsonb, null::jsonb,
            null::timestamptz, null::timestamptz, null::text
        ) as m
        cross join lateral pgmq.set_vt(q.queue_name::text, m.msg_id, m.vt - %s::interval) as moved
        where m.vt > pg_catalog.clock_timestamp()
    """
    return Call(sql, (by,), scalar)


def _append_due(by: timedelta) -> Call[int]:
    # Not by a pass of the mover, which does not see the entries of its own transaction.
    sql: LiteralString = (
        _PENDING  # noqa: S608 - of constants
        + """, due as (
            delete from pgq.retry_entry as e
            using pending
            where e.tableoid = pending.tableoid and e.ctid = pending.ctid
              and e.ev_retry_after <= pg_catalog.clock_timestamp() + %s::interval
            returning e.*
        ), ordered as (
            select q.queue_name, due.*
            from due
            join pgq.queue as q on q.queue_id = due.ev_queue
            order by due.ev_retry_after, due.entry_id
        )
        select count(
            pgq.insert_event_raw(
                o.queue_name::text, o.ev_id, o.ev_time, o.ev_owner, o.ev_retry,
                o.ev_type, o.ev_data, o.ev_extra1, o.ev_extra2, o.ev_extra3, o.ev_extra4
            )
        )
        from ordered as o
        """
    )
    return Call(sql, (by,), scalar)


def _move_entries(by: timedelta) -> Call[int]:
    # To times after now, as those that are due have left: so no earlier pass covers them.
    sql: LiteralString = (
        _PENDING  # noqa: S608 - of constants
        + """, moved as (
            update pgq.retry_entry as e
            set ev_retry_after = e.ev_retry_after - %s::interval
            from pending
            where e.tableoid = pending.tableoid and e.ctid = pending.ctid
            returning e.entry_id
        )
        select count(*) from moved
        """
    )
    return Call(sql, (by,), scalar)


def _fire(by: timedelta) -> Call[list[FiredSlot]]:
    # At the time to which the clock advances, so that the slots are those of the calendar.
    sql: LiteralString = """
        select due.name, fired.slot, fired.msg_id, fired.error
        from (
            select s, s.name
            from sluice.schedule as s
            where s.due_at <= pg_catalog.clock_timestamp() + %s::interval
            order by s.due_at, s.name
            for update
        ) as due
        cross join lateral sluice._fire_schedule(due.s, pg_catalog.clock_timestamp() + %s::interval) as fired
    """
    return Call(sql, (by, by), record(FiredSlot))


def _move_schedules(by: timedelta) -> Call[int]:
    # Slots that were fired are forgotten: the next ones may have their times.
    sql: LiteralString = """
        with forgotten as (
            delete from sluice.schedule_slot
        ), moved as (
            update sluice.schedule as s
            set next_slot = s.next_slot - by.by, due_at = s.due_at - by.by, starts_at = s.starts_at - by.by,
                ends_at = s.ends_at - by.by, last_slot = s.last_slot - by.by,
                last_fired_at = s.last_fired_at - by.by, looked_at = pg_catalog.clock_timestamp()
            from (select %s::interval as by) as by
            returning s.name
        )
        select count(*) from moved
    """
    return Call(sql, (by,), scalar)
