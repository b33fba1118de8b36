/*
 * The heartbeat of a worker process, every 30 seconds. The first one registers it; so does one after the worker was removed
 * because it had been silent. Times are those of the server: the worker passes durations.
 *
 * backend_pid is that of the worker's listener, a session that lives as long as the process.
 *
 * Calls: sluice._maintain_processes, sluice._require_short_name. Writes: sluice.process, sluice.process_report.
 *
 * Security definer: a reader may report its worker, but may not write to the tables.
 */
create or replace function sluice.report_worker(
    worker_id text, app text, host text, pid integer, version text, sources text[], concurrency integer, uptime interval,
    running jsonb default '[]', counts jsonb default '{}', backend_pid integer default null, policies jsonb default '[]',
    times jsonb default '[]', slowest jsonb default '[]'
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
-- A heartbeat is not worth waiting for.
set lock_timeout = '500ms'
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    perform from sluice.process as p where p.process_id = report_worker.worker_id;
    if not found then
        perform sluice._require_short_name('worker_id'::text, report_worker.worker_id);
        insert into sluice.process (
            process_id, kind, app, host, pid, version, role_name, sources, concurrency, policies, started_at
        )
        values (
            report_worker.worker_id, 'worker', report_worker.app, report_worker.host, report_worker.pid, report_worker.version,
            sluice._caller(), report_worker.sources, report_worker.concurrency, report_worker.policies, v_now - uptime
        )
        on conflict on constraint process_pkey do nothing;
    end if;
    insert into sluice.process_report (process_id, reported_at, backend_pid, running, counts, times, slowest)
    values (
        report_worker.worker_id, v_now,
        (
            -- Not the view, which reads all sessions.
            select a.pid
            from pg_stat_get_activity(report_worker.backend_pid) as a
            join pg_database as d on d.oid = a.datid
            where report_worker.backend_pid is not null and d.datname = current_database()
        ),
        coalesce(
            (
                select jsonb_agg(
                    r.call - 'running_s'
                    || jsonb_build_object('since', v_now - make_interval(secs => (r.call ->> 'running_s')::double precision))
                    order by (r.call ->> 'running_s')::double precision desc
                )
                from jsonb_array_elements(report_worker.running) as r (call)
            ),
            '[]'
        ),
        report_worker.counts, report_worker.times,
        coalesce(
            (
                select jsonb_agg(
                    s.call - 'ended_s'
                    || jsonb_build_object('ended_at', v_now - make_interval(secs => (s.call ->> 'ended_s')::double precision))
                    order by (s.call ->> 'seconds')::double precision desc
                )
                from jsonb_array_elements(report_worker.slowest) as s (call)
            ),
            '[]'
        )
    );
    perform sluice._maintain_processes(null::interval);
end;
$$;

comment on function sluice.report_worker(text, text, text, integer, text, text[], integer, interval, jsonb, jsonb, integer, jsonb, jsonb, jsonb) is
    'Register a worker process, or report that it lives: running is an array of its calls of handlers with handler, queue and msg_id, or log, group or consumer, and ev_id, and running_s; policies is an array of the retry policies that its handlers declare, with source and handler; times is one of the durations of the calls that ended in the last five to ten minutes, with source, handler, max_s and buckets (lower bound, upper bound or null, calls); slowest is one of the slowest of them, as running with seconds and ended_s; backend_pid is that of a session that the process keeps open, null behind a pooler. Call it every 30 seconds, and sluice.end_worker at the end.';
revoke execute on function sluice.report_worker(text, text, text, integer, text, text[], integer, interval, jsonb, jsonb, integer, jsonb, jsonb, jsonb) from public;
grant execute on function sluice.report_worker(text, text, text, integer, text, text[], integer, interval, jsonb, jsonb, integer, jsonb, jsonb, jsonb) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
