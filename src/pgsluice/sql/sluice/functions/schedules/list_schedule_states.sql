/*
 * As sluice.list_schedules, without messages and events. The error can have parts of them, so it is only returned to roles that
 * may read them.
 *
 * Security definer: a monitor may not read the schedules themselves.
 */
create or replace function sluice.list_schedule_states()
returns table (
    name text, target text, queue_name text, cron text, every interval, time_zone text, declared_by text,
    paused_at timestamptz, next_slot timestamptz, due_at timestamptz, last_slot timestamptz, last_fired_at timestamptz,
    is_failing boolean, error text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_may_read constant boolean := sluice._may_read('sluice.schedule'::regclass);
begin
    return query
        select s.name, s.target, s.queue_name, s.cron, s.every, s.time_zone, s.declared_by,
            s.paused_at, s.next_slot, s.due_at, s.last_slot, s.last_fired_at,
            s.error is not null, case when v_may_read then s.error end
        from sluice.schedule as s
        order by s.name;
end;
$$;

comment on function sluice.list_schedule_states() is
    'Return every schedule by name, without its message or event: its times, its next and last slot, and whether the next one fails; the error only for roles that may read messages.';
revoke execute on function sluice.list_schedule_states() from public;
grant execute on function sluice.list_schedule_states() to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
