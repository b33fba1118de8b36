create or replace function sluice.list_schedules()
returns table (
    name text, target text, queue_name text, message jsonb, headers jsonb, event jsonb,
    cron text, every interval, time_zone text, catch_up text, catch_up_within interval, jitter interval,
    starts_at timestamptz, ends_at timestamptz, declared_by text,
    paused_at timestamptz, next_slot timestamptz, due_at timestamptz,
    last_slot timestamptz, last_fired_at timestamptz, error text
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select
        s.name, s.target, s.queue_name, s.message, s.headers, s.event,
        s.cron, s.every, s.time_zone, s.catch_up, s.catch_up_within, s.jitter,
        s.starts_at, s.ends_at, s.declared_by,
        s.paused_at, s.next_slot, s.due_at,
        s.last_slot, s.last_fired_at, s.error
    from sluice.schedule as s
    order by s.name;
$$;

comment on function sluice.list_schedules() is
    'Return every schedule by name: its message or event, its times, its next and last slot, and the error of the next one, if any.';
revoke execute on function sluice.list_schedules() from public;
grant execute on function sluice.list_schedules() to sluice_admin, sluice_reader;
