-- For a local time that occurs twice PostgreSQL takes the second, and for a skipped one it applies the earlier offset.
-- Neither is wanted here: the result is the first moment at which the clock shows this time, or a later one.
create or replace function sluice._first_moment(i_shown timestamp, i_time_zone text)
returns timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_moment timestamptz := i_shown at time zone i_time_zone;
    -- In hours, because a day of the session's time zone may have 23 or 25.
    v_skipped interval := make_interval(secs => extract(epoch from v_moment at time zone i_time_zone - i_shown)::double precision);
    v_before timestamptz := v_moment - interval '12 hours';
    v_repeated interval;
begin
    if v_skipped <> '0' then
        -- The clock is set forward by v_skipped, at most that long before.
        return (
            select min(m)
            from generate_series(v_moment - v_skipped, v_moment, '1 minute') as m
            where m at time zone i_time_zone - m at time zone 'UTC'
                = v_moment at time zone i_time_zone - v_moment at time zone 'UTC'
        );
    end if;
    -- The amount by which it is set back in the half day before, if any.
    v_repeated := (v_before at time zone i_time_zone - v_before at time zone 'UTC')
        - (i_shown - v_moment at time zone 'UTC');
    if v_repeated > '0' and (v_moment - v_repeated) at time zone i_time_zone = i_shown then
        return v_moment - v_repeated;
    end if;
    return v_moment;
end;
$$;

comment on function sluice._first_moment(timestamp, text) is
    'Return the first moment at which the clock of a time zone shows this time, or a later one if it skips it.';
revoke execute on function sluice._first_moment(timestamp, text) from public;
grant execute on function sluice._first_moment(timestamp, text) to sluice_admin;
