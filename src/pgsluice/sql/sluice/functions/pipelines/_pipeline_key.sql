create or replace function sluice._pipeline_key(queue_id integer, consumer_name text)
returns bigint
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select hashtextextended(format('sluice.pipeline/%s/%s', queue_id, consumer_name), 0);
$$;

comment on function sluice._pipeline_key(integer, text) is
    'Return the key of the advisory lock that the query of a pipeline holds.';
revoke execute on function sluice._pipeline_key(integer, text) from public;
grant execute on function sluice._pipeline_key(integer, text)
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
