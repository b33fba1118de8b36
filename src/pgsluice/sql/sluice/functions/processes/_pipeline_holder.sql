create or replace function sluice._pipeline_holder(i_process_id text)
returns integer
language sql
volatile
set search_path = pg_catalog, pg_temp
as $$
    select l.pid
    from pg_locks as l
    where l.locktype = 'advisory'
      and l.database = (select d.oid from pg_database as d where d.datname = current_database())
      and (l.classid::bigint << 32) | l.objid::bigint = hashtextextended(i_process_id, 0)
      and l.objsubid = 1
      and l.granted;
$$;

comment on function sluice._pipeline_holder(text) is
    'Return the pid of the session that holds the consumer of a pipeline; null if none does.';
revoke execute on function sluice._pipeline_holder(text) from public;
grant execute on function sluice._pipeline_holder(text)
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
