/*
 * The next moment that matches a cron expression in a time zone, whose clock may be set forward and back.
 *
 * Fixed hours: each time of the clock is one slot. A skipped one is a slot at the first moment after the gap, and several in
 * one gap are one slot. One that occurs twice is a slot at the first occurrence. So slots are in the order of local time, and
 * the search follows the calendar; it skips slots in the past of the second occurrence.
 *
 * Every hour: real time continues whatever the clock is set to, and a schedule of every ten minutes fires every ten minutes.
 * So the search follows real time: there is a slot within two hours, or the day ends.
 *
 * For a zone that sets its clock by other than whole minutes, as none has since 1972, this is wrong by less than a minute.
 *
 * Calls: sluice._parse_cron, sluice._next_cron_time, sluice._next_cron_day, sluice._first_moment.
 */
create or replace function sluice._next_slot(i_cron text, i_time_zone text, i_after timestamptz)
returns timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_every_hour constant integer := 24;
    v_cron sluice.cron := sluice._parse_cron(i_cron);
    v_shown timestamp := i_after at time zone i_time_zone;
    v_slot timestamptz := i_after;
    v_from timestamptz := date_trunc('minute', i_after) + interval '1 minute';
    v_today date;
    v_days date[];
begin
    if cardinality(v_cron.hours) < v_every_hour then
        while v_slot <= i_after loop
            v_shown := sluice._next_cron_time(v_cron, v_shown);
            v_slot := sluice._first_moment(v_shown, i_time_zone);
        end loop;
        return v_slot;
    end if;

    loop
        v_today := v_from at time zone i_time_zone;
        v_days[1] := sluice._next_cron_day(v_cron, v_today);
        v_days[2] := sluice._next_cron_day(v_cron, v_days[1] + 1);
        select min(m)
        into v_slot
        from generate_series(v_from, v_from + interval '2 hours', '1 minute') as m
        where extract(minute from m at time zone i_time_zone) = any (v_cron.minutes)
          and (m at time zone i_time_zone)::date = any (v_days);
        -- None: this day does not match, or is nearly over.
        v_from := sluice._first_moment(
            (case when v_days[1] = v_today then v_days[2] else v_days[1] end)::timestamp, i_time_zone
        );
        exit when v_slot is not null or v_from is null;
    end loop;
    return v_slot;
end;
$$;

comment on function sluice._next_slot(text, text, timestamptz) is
    'Return the first moment after another one that matches a cron expression in a time zone; null: none.';
revoke execute on function sluice._next_slot(text, text, timestamptz) from public;
grant execute on function sluice._next_slot(text, text, timestamptz) to sluice_admin;

-- Slots of an interval are starts_at plus whole multiples, in numeric, so that no error accumulates.
create or replace function sluice._next_slot(i_schedule sluice.schedule, i_after timestamptz)
returns timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_after timestamptz := greatest(i_after, i_schedule.starts_at - interval '1 microsecond');
    v_slot timestamptz;
begin
    if i_schedule.cron is not null then
        v_slot := sluice._next_slot(i_schedule.cron, i_schedule.time_zone, v_after);
    else
        v_slot := i_schedule.starts_at + i_schedule.every * (
            floor(extract(epoch from v_after - i_schedule.starts_at) / extract(epoch from i_schedule.every)) + 1
        )::double precision;
    end if;
    return case when i_schedule.ends_at is null or v_slot < i_schedule.ends_at then v_slot end;
end;
$$;

comment on function sluice._next_slot(sluice.schedule, timestamptz) is
    'Return the first slot of a schedule after a moment; null: none.';
revoke execute on function sluice._next_slot(sluice.schedule, timestamptz) from public;
grant execute on function sluice._next_slot(sluice.schedule, timestamptz) to sluice_admin;
