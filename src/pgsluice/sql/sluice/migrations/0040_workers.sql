-- breaking: no
-- Rows of both tables are only appended, and truncated when there are many: a row updated with each report would leave dead
-- versions under a held snapshot. So a worker that has ended is one whose newest report has ended_at.
create table sluice.worker (
    worker_id text primary key,
    app text not null,
    host text not null,
    pid integer not null,
    version text not null,
    role_name text not null,
    sources text[] not null,
    concurrency integer,
    started_at timestamptz not null
);
comment on table sluice.worker is 'Worker processes. Written by sluice.report_worker.';
comment on column sluice.worker.worker_id is 'Unique name of the process, as in sluice.attempt.worker: host, pid and a random number.';
comment on column sluice.worker.sources is 'Where it claims: queue Q, log L group G, log L consumer C.';
comment on column sluice.worker.concurrency is 'Maximum concurrent calls of handlers in the process; null: only limited per handler.';

create table sluice.worker_report (
    report_id bigint generated always as identity,
    worker_id text not null,
    reported_at timestamptz not null,
    backend_pid integer,
    running jsonb not null,
    counts jsonb not null,
    ended_at timestamptz,
    primary key (worker_id, report_id)
);
-- Few: most reports are not the last.
create index worker_report_ended_idx on sluice.worker_report (ended_at) where ended_at is not null;
comment on table sluice.worker_report is
    'Heartbeats of worker processes; the newest of each counts. Written by sluice.report_worker and sluice.end_worker.';
comment on column sluice.worker_report.backend_pid is 'The server process of a session that the worker keeps open; null if there is none, as behind a pooler.';
comment on column sluice.worker_report.running is
    'Calls of handlers at the time of the report, longest first: handler, queue and msg_id, or log, group or consumer, and ev_id, and since.';
comment on column sluice.worker_report.counts is 'Settled messages since the start of the process: handler, then result.';

grant select on sluice.worker, sluice.worker_report
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
