/*
 * Any number of processes may call this concurrently. The one that locks the row of a schedule fires it; the others skip it,
 * and then it is no longer due. The message, the row of the slot and the next slot are one transaction: after a crash the
 * slot is still due.
 *
 * No row waits for another one: locked rows are skipped, and the targets take no lock that two calls would take in different
 * orders. A queue with a locked table is skipped for now, like a missing one.
 *
 * Calls: sluice._fire_schedule. Reads: sluice.schedule.
 */
create or replace function sluice.fire_schedules(schedules_max integer default 100)
returns table (name text, slot timestamptz, msg_id bigint, error text)
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_schedule sluice.schedule;
begin
    -- If the clock was ahead and was set back, compute the next slot again. Slots that fired are not fired twice.
    with ahead as materialized (
        select s.name, n.slot
        from sluice.schedule as s
        cross join lateral (
            select max(fired.slot) as slot
            from sluice.schedule_slot as fired
            where fired.name = s.name and fired.earlier_removed
        ) as removed
        cross join lateral sluice._next_slot(s, greatest(v_now, removed.slot)) as n (slot)
        where s.looked_at > v_now + interval '1 second' and s.next_slot is not null
        limit schedules_max
        for update of s skip locked
    )
    update sluice.schedule as s
    set next_slot = least(s.next_slot, ahead.slot),
        due_at = sluice._slot_due_at(s, least(s.next_slot, ahead.slot)),
        looked_at = v_now
    from ahead
    where s.name = ahead.name;
    for v_schedule in
        select s.*
        from sluice.schedule as s
        where s.due_at <= v_now
        order by s.due_at, s.name
        limit schedules_max
        for update skip locked
    loop
        return query
            select v_schedule.name, f.slot, f.msg_id, f.error from sluice._fire_schedule(v_schedule, v_now) as f;
    end loop;
end;
$$;

comment on function sluice.fire_schedules(integer) is
    'Fire due schedules, at most ten slots of each of schedules_max; returns a row per slot fired, or failed with its error.';
revoke execute on function sluice.fire_schedules(integer) from public;
grant execute on function sluice.fire_schedules(integer) to sluice_admin;
