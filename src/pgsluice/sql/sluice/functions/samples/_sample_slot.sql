create or replace function sluice._sample_slot(i_resolution integer, i_at timestamptz, out slot integer, out starts_at timestamptz)
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select (3 * i_resolution + trunc(extract(epoch from i_at) / period.s)::bigint % 3)::integer,
        to_timestamp((trunc(extract(epoch from i_at) / period.s) * period.s)::double precision)
    from (values ((array[1800, 43200, 1296000])[i_resolution + 1])) as period (s);
$$;

comment on function sluice._sample_slot(integer, timestamptz) is
    'Return the partition for samples of a time, and the start of its period; resolution 0: 10 seconds, 1: a minute, 2: 15 minutes.';
revoke execute on function sluice._sample_slot(integer, timestamptz) from public;
grant execute on function sluice._sample_slot(integer, timestamptz) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
