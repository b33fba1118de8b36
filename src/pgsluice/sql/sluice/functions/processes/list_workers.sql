-- After a lost connection has_session is false until the next report. The columns of pg_stat_activity that this reads are
-- visible to every role.
create or replace function sluice.list_workers()
returns table (
    worker_id text, app text, host text, pid integer, version text, sources text[], concurrency integer,
    started_at timestamptz, reported_at timestamptz, is_live boolean, running jsonb, counts jsonb, role_name text,
    has_session boolean, policies jsonb, times jsonb, slowest jsonb
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select w.process_id, w.app, w.host, w.pid, w.version, w.sources, w.concurrency, w.started_at, w.reported_at,
        w.reported_at > clock_timestamp() - interval '90 seconds' and (w.backend_pid is null or a.pid is not null),
        w.running, w.counts, w.role_name, case when w.backend_pid is not null then a.pid is not null end, w.policies, w.times, w.slowest
    from sluice.reporting as w
    left join pg_stat_activity as a on a.pid = w.backend_pid and a.datname = current_database()
    where w.queue_id is null
    order by w.app, w.host, w.started_at, w.process_id;
$$;

comment on function sluice.list_workers() is
    'Return worker processes, without those that have ended or were silent for a day, with what each ran at its last report, and how long its calls took before it. is_live is false if a worker has not reported for 90 seconds, or if its session has ended: has_session is then false, and null behind a pooler.';
revoke execute on function sluice.list_workers() from public;
grant execute on function sluice.list_workers()
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
