create or replace function sluice._require_schedule_settings(i_schedule sluice.schedule)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_problem text;
    v_hint text;
begin
    if num_nulls(
        i_schedule.name, i_schedule.queue_name, i_schedule.time_zone, i_schedule.catch_up, i_schedule.catch_up_within,
        i_schedule.jitter
    ) > 0 then
        raise exception using
            errcode = '22004',
            message = 'name, queue_name, time_zone, catch_up, catch_up_within or jitter of a schedule is null',
            hint = 'omit an argument for its default';
    end if;
    case
        when i_schedule.name = '' or octet_length(i_schedule.name) > 200 then
            v_problem := format('its name has %s bytes', octet_length(i_schedule.name));
            v_hint := 'use 1 to 200 bytes';
        when i_schedule.event is not null and num_nonnulls(i_schedule.message, i_schedule.headers) > 0 then
            v_problem := 'it has a message and an event';
            v_hint := 'pass a message for a queue, or an event for a log';
        when jsonb_typeof(i_schedule.event) <> 'object' or exists (
            select
            from jsonb_each(i_schedule.event) as e
            where e.key not in ('ev_type', 'ev_data', 'ev_extra1', 'ev_extra2', 'ev_extra3', 'ev_extra4')
               or jsonb_typeof(e.value) <> 'string'
        ) then
            v_problem := format('its event is %s', i_schedule.event);
            v_hint := 'pass an object of texts: ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4';
        when num_nonnulls(i_schedule.cron, i_schedule.every) <> 1 then
            v_problem := 'it needs either cron or every';
            v_hint := 'pass one of them: cron such as ''30 3 * * *'', or every such as 15 minutes';
        when i_schedule.every < interval '100 milliseconds'
            or date_trunc('month', i_schedule.every) <> '0'
        then
            v_problem := format('every is %s', i_schedule.every);
            v_hint := 'use 100 milliseconds or more, without months and years; use cron for months';
        when i_schedule.catch_up not in ('none', 'one', 'all') then
            v_problem := format('catch_up is %L', i_schedule.catch_up);
            v_hint := 'use none, one or all';
        when i_schedule.catch_up_within < interval '0' then
            v_problem := format('catch_up_within is %s', i_schedule.catch_up_within);
            v_hint := 'use 0 or more';
        when i_schedule.jitter not between interval '0' and interval '1 day' then
            v_problem := format('jitter is %s', i_schedule.jitter);
            v_hint := 'use 0 to 1 day';
        when not isfinite(i_schedule.starts_at) or not isfinite(i_schedule.ends_at) then
            v_problem := 'starts_at or ends_at is infinite';
            v_hint := 'pass a time, or omit it';
        when i_schedule.ends_at <= i_schedule.starts_at then
            v_problem := 'ends_at is not after starts_at';
            v_hint := 'use a later ends_at, or omit it';
        when jsonb_typeof(i_schedule.headers) <> 'object' then
            v_problem := 'headers is not a JSON object';
            v_hint := 'pass an object, or null';
        when i_schedule.time_zone <> 'UTC' and not exists (
            select from pg_timezone_names as z where lower(z.name collate "C") = lower(i_schedule.time_zone collate "C")
        ) then
            v_problem := format('time_zone is %L', i_schedule.time_zone);
            v_hint := 'use a name of pg_timezone_names, such as Europe/Berlin';
        else
            if i_schedule.cron is not null
                and sluice._next_slot(i_schedule.cron, i_schedule.time_zone, clock_timestamp()) is null
            then
                raise exception using
                    errcode = 'RS002',
                    message = format('the cron expression %L never matches', i_schedule.cron),
                    detail = 'Its months have no such day.',
                    hint = 'use L for the last day of a month';
            end if;
            return;
    end case;
    raise exception using
        errcode = '22023',
        message = format('cannot create the schedule %L: %s', i_schedule.name, v_problem),
        hint = v_hint;
end;
$$;

comment on function sluice._require_schedule_settings(sluice.schedule) is
    'Raise an error if the settings of a schedule are invalid; its target is not checked.';
revoke execute on function sluice._require_schedule_settings(sluice.schedule) from public;
grant execute on function sluice._require_schedule_settings(sluice.schedule) to sluice_admin;
