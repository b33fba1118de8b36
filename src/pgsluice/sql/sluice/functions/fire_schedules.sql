/*
 * Any number of processes may call this at once. Whoever locks the row of a schedule fires it; the others pass it by, and when
 * they look again it is not due any more. The message, the row of the slot and the next slot are one transaction: what a crash
 * takes back is due still.
 *
 * No row waits for another one: rows that are locked are skipped, and what is sent to takes no lock that two of these would
 * take in different orders. A queue whose table somebody locks is given up for now, like one that is not there.
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
    'Fire the schedules that are due, at most ten slots of each of schedules_max; one row for each slot that was fired, or with the error of one that could not be.';
revoke execute on function sluice.fire_schedules(integer) from public;
grant execute on function sluice.fire_schedules(integer) to sluice_admin;
