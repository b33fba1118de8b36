/*
 * Partitions lie on a grid, so that every session computes the same range for a message. Ids: multiples of the
 * interval. Times, in UTC: multiples from Monday, 3 January 2000, or for months and years, from January 2000.
 */
create or replace function sluice._partition_range(
    place bigint, is_time boolean, partition_interval text, out starts_at bigint, out ends_at bigint
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    v_length numeric;
    v_months integer;
    v_month integer;
    v_origin numeric := 0;
    v_start numeric;
    v_time timestamptz;
begin
    if is_time then
        v_months := extract(year from partition_interval::interval) * 12 + extract(month from partition_interval::interval);
        if v_months > 0 then
            v_time := timestamptz 'epoch' + make_interval(secs => floor(place / 1000000.0)::double precision);
            v_month := (extract(year from v_time)::integer - 2000) * 12 + extract(month from v_time)::integer - 1;
            v_month := floor(v_month::numeric / v_months)::integer * v_months;
            v_time := timestamptz '2000-01-01' + make_interval(months => v_month);
            starts_at := extract(epoch from v_time) * 1000000;
            ends_at := extract(epoch from v_time + make_interval(months => v_months)) * 1000000;
            return;
        end if;
        v_origin := extract(epoch from timestamptz '2000-01-03') * 1000000;
        v_length := extract(epoch from partition_interval::interval) * 1000000;
    else
        v_length := partition_interval::numeric;
    end if;
    v_start := v_origin + floor((place - v_origin) / v_length) * v_length;
    starts_at := greatest(v_start, -9223372036854775807);
    ends_at := least(v_start + v_length, 9223372036854775806);
end;
$$;

comment on function sluice._partition_range(bigint, boolean, text) is
    'Return the range of the grid that contains an id or a time.';
revoke execute on function sluice._partition_range(bigint, boolean, text) from public;
grant execute on function sluice._partition_range(bigint, boolean, text) to sluice_admin;
