-- Maintenance by pg_cron, or by a ticker of its own, has no leader. Twice the lease: see worker/upkeep/leader.py.
create or replace function sluice.maintenance_leader()
returns integer
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
    select t.candidate from sluice._turn('maintenance'::text) as t where t.called_at > clock_timestamp() - interval '6 seconds';
$$;

comment on function sluice.maintenance_leader() is
    'Return the number of the process that leads the maintenance of this database, which is the pid of its session unless a pooler is in between; null if none does.';
revoke execute on function sluice.maintenance_leader() from public;
grant execute on function sluice.maintenance_leader() to pgq_admin, sluice_admin, sluice_monitor, sluice_reader;
