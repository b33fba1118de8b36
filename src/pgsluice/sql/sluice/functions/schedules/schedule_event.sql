-- Calls: sluice._put_schedule.
create or replace function sluice.schedule_event(
    name text, queue_name text, ev_type text, ev_data text,
    cron text default null, every interval default null, time_zone text default 'UTC',
    catch_up text default 'one', jitter interval default '0',
    starts_at timestamptz default null, ends_at timestamptz default null,
    catch_up_within interval default '7 days', declared_by text default null,
    ev_extra1 text default null, ev_extra2 text default null, ev_extra3 text default null, ev_extra4 text default null
)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule sluice.schedule;
begin
    v_schedule.name := name;
    v_schedule.target := 'log';
    v_schedule.queue_name := queue_name;
    v_schedule.event := jsonb_strip_nulls(jsonb_build_object(
        'ev_type', ev_type, 'ev_data', ev_data,
        'ev_extra1', ev_extra1, 'ev_extra2', ev_extra2, 'ev_extra3', ev_extra3, 'ev_extra4', ev_extra4
    ));
    v_schedule.cron := cron;
    v_schedule.every := every;
    v_schedule.time_zone := time_zone;
    v_schedule.catch_up := catch_up;
    v_schedule.catch_up_within := catch_up_within;
    v_schedule.jitter := jitter;
    v_schedule.starts_at := starts_at;
    v_schedule.ends_at := ends_at;
    v_schedule.declared_by := declared_by;
    return sluice._put_schedule(v_schedule);
end;
$$;

comment on function sluice.schedule_event(text, text, text, text, text, interval, text, text, interval, timestamptz, timestamptz, interval, text, text, text, text, text) is
    'Append an event to a log at the times of a cron expression, or at regular intervals; false: the schedule exists unchanged.';
revoke execute on function sluice.schedule_event(text, text, text, text, text, interval, text, text, interval, timestamptz, timestamptz, interval, text, text, text, text, text) from public;
grant execute on function sluice.schedule_event(text, text, text, text, text, interval, text, text, interval, timestamptz, timestamptz, interval, text, text, text, text, text) to sluice_admin;
