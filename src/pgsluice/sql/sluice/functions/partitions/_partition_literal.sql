create or replace function sluice._partition_literal(place bigint, is_time boolean)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO'
as $$
    select case
        when place = -9223372036854775808 then 'MINVALUE'
        when place = 9223372036854775807 then 'MAXVALUE'
        -- In two parts: times are integers, and multiplying an interval uses floating point.
        when is_time then (
            timestamptz 'epoch' + make_interval(secs => floor(place / 1000000.0)::double precision)
            + (place - floor(place / 1000000.0) * 1000000)::integer * interval '1 microsecond'
        )::text
        else place::text
    end;
$$;

comment on function sluice._partition_literal(bigint, boolean) is
    'Return the id or time of a position as text; the inverse of _partition_position.';
revoke execute on function sluice._partition_literal(bigint, boolean) from public;
grant execute on function sluice._partition_literal(bigint, boolean) to sluice_admin, sluice_reader, sluice_monitor;
