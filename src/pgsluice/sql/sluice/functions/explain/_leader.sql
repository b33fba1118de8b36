-- As in sluice.lead. Maintenance by pg_cron, or by a ticker of its own, has no leader.
create or replace function sluice._leader()
returns integer
language sql
volatile
set search_path = pg_catalog, pg_temp
as $$
    select l.pid
    from pg_locks as l
    where l.locktype = 'advisory'
      and l.database = (select d.oid from pg_database as d where d.datname = current_database())
      and (l.classid::bigint << 32) | l.objid::bigint = hashtextextended('sluice.lead', 0)
      and l.objsubid = 1
      and l.granted;
$$;

comment on function sluice._leader() is
    'Return the pid of the session that leads the maintenance of this database; null if none does.';
revoke execute on function sluice._leader() from public;
grant execute on function sluice._leader() to pgq_admin, sluice_admin, sluice_monitor;
