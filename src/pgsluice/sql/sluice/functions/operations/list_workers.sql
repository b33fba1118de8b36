-- After a lost connection has_session is false until the next report. The columns of pg_stat_activity that this reads are
-- visible to every role.
create or replace function sluice.list_workers()
returns table (
    worker_id text, app text, host text, pid integer, version text, sources text[], concurrency integer,
    started_at timestamptz, reported_at timestamptz, is_live boolean, running jsonb, counts jsonb, role_name text,
    has_session boolean
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select w.worker_id, w.app, w.host, w.pid, w.version, w.sources, w.concurrency, w.started_at, newest.reported_at,
        newest.reported_at > clock_timestamp() - interval '90 seconds' and session.is_there is distinct from false,
        newest.running, newest.counts, w.role_name, session.is_there
    from sluice.worker as w
    cross join lateral (
        select r.*
        from sluice.worker_report as r
        where r.worker_id = w.worker_id
        order by r.report_id desc
        limit 1
    ) as newest
    cross join lateral (
        select case when newest.backend_pid is not null then exists (
            select
            from pg_stat_activity as a
            where a.pid = newest.backend_pid and a.datname = current_database()
        ) end as is_there
    ) as session
    where newest.ended_at is null and newest.reported_at > clock_timestamp() - interval '1 day'
    order by w.app, w.host, w.started_at, w.worker_id;
$$;

comment on function sluice.list_workers() is
    'Return worker processes, without those that have ended or were silent for a day, with what each ran at its last report. is_live is false if a worker has not reported for 90 seconds, or if its session has ended: has_session is then false, and null behind a pooler.';
revoke execute on function sluice.list_workers() from public;
grant execute on function sluice.list_workers()
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
