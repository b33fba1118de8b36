/*
 * Messages and events, and the error, which can have parts of them, are only returned to roles that may read them.
 *
 * Security definer: a monitor may not read the schedules themselves.
 */
create or replace function sluice.list_schedules()
returns table (
    name text, target text, queue_name text, message jsonb, headers jsonb, event jsonb,
    cron text, every interval, time_zone text, catch_up text, catch_up_within interval, jitter interval,
    starts_at timestamptz, ends_at timestamptz, declared_by text,
    paused_at timestamptz, next_slot timestamptz, due_at timestamptz,
    last_slot timestamptz, last_fired_at timestamptz, is_failing boolean, error text,
    is_hidden boolean
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_may_read constant boolean := sluice._may_read('sluice.schedule'::regclass);
begin
    return query
        select
            s.name, s.target, s.queue_name,
            case when v_may_read then s.message end, case when v_may_read then s.headers end, case when v_may_read then s.event end,
            s.cron, s.every, s.time_zone, s.catch_up, s.catch_up_within, s.jitter,
            s.starts_at, s.ends_at, s.declared_by,
            s.paused_at, s.next_slot, s.due_at,
            s.last_slot, s.last_fired_at, s.error is not null, case when v_may_read then s.error end, not v_may_read
        from sluice.schedule as s
        order by s.name;
end;
$$;

comment on function sluice.list_schedules() is
    'Return every schedule by name: its message or event, its times, its next and last slot, and whether the next one fails, with the error; message, event and error only for roles that may read messages.';
revoke execute on function sluice.list_schedules() from public;
grant execute on function sluice.list_schedules() to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
