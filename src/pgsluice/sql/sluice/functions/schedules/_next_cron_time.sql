-- Local time: a timestamp without time zone is meant here.
create or replace function sluice._next_cron_time(i_cron sluice.cron, i_after timestamp)
returns timestamp
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_day date := sluice._next_cron_day(i_cron, i_after::date);
    v_hour integer := extract(hour from i_after);
    v_minute integer;
begin
    if v_day = i_after::date then
        if v_hour = any (i_cron.hours) then
            v_minute := (select min(m) from unnest(i_cron.minutes) as m where m > extract(minute from i_after));
        end if;
        if v_minute is null then
            v_hour := (select min(h) from unnest(i_cron.hours) as h where h > v_hour);
            v_minute := i_cron.minutes[1];
        end if;
        if v_hour is not null then
            return v_day + make_interval(hours => v_hour, mins => v_minute);
        end if;
        v_day := sluice._next_cron_day(i_cron, v_day + 1);
    end if;
    return v_day + make_interval(hours => i_cron.hours[1], mins => i_cron.minutes[1]);
end;
$$;

comment on function sluice._next_cron_time(sluice.cron, timestamp) is
    'Return the first time after another one that matches a cron expression, on a clock that is never set; null: none.';
revoke execute on function sluice._next_cron_time(sluice.cron, timestamp) from public;
grant execute on function sluice._next_cron_time(sluice.cron, timestamp) to sluice_admin;
