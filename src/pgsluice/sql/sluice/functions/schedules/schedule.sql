-- Calls: sluice._put_schedule.
create or replace function sluice.schedule(
    name text, queue_name text, message jsonb default null,
    cron text default null, every interval default null, time_zone text default 'UTC',
    catch_up text default 'one', jitter interval default '0', headers jsonb default null,
    starts_at timestamptz default null, ends_at timestamptz default null,
    catch_up_within interval default '7 days', declared_by text default null, event jsonb default null
)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule sluice.schedule;
begin
    v_schedule.name := name;
    v_schedule.target := case when event is null then 'queue' else 'log' end;
    v_schedule.queue_name := queue_name;
    v_schedule.message := message;
    v_schedule.headers := headers;
    v_schedule.event := jsonb_strip_nulls(event);
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

comment on function sluice.schedule(text, text, jsonb, text, interval, text, text, interval, jsonb, timestamptz, timestamptz, interval, text, jsonb) is
    'Send a message to a work queue, or append an event (an object with ev_type, ev_data and ev_extra1 to 4) to a log, at the times of a cron expression, or at regular intervals; false: the schedule exists unchanged.';
revoke execute on function sluice.schedule(text, text, jsonb, text, interval, text, text, interval, jsonb, timestamptz, timestamptz, interval, text, jsonb) from public;
grant execute on function sluice.schedule(text, text, jsonb, text, interval, text, text, interval, jsonb, timestamptz, timestamptz, interval, text, jsonb) to sluice_admin;
