-- Rows are appended, and both tables are truncated when there are many reports: a row updated with each report would leave dead
-- versions under a held snapshot. So a worker that has ended is one whose newest report has ended_at. Only the row of a pipeline
-- is updated, when it starts again.
create table sluice.process (
    process_id text primary key,
    kind text not null,
    app text not null,
    host text not null,
    pid integer not null,
    version text,
    role_name text not null,
    started_at timestamptz not null,
    sources text[] not null,
    concurrency integer,
    policies jsonb not null default '[]',
    queue_id integer references pgq.queue (queue_id) on delete cascade,
    consumer_name text,
    lake text
);
comment on table sluice.process is
    'Processes that report: workers, and pipelines from an event log into the lake. Written by sluice.report_worker and sluice.hold_pipeline.';
comment on column sluice.process.process_id is
    'Of a worker, its unique name as in sluice.attempt.worker: host, pid and a random number. Of a pipeline, its log and consumer.';
comment on column sluice.process.kind is 'worker, or the kind of the pipeline.';
comment on column sluice.process.app is 'The app of a worker; the application_name of a pipeline''s session.';
comment on column sluice.process.host is 'The host of a worker; the address of a pipeline''s session.';
comment on column sluice.process.pid is 'Of a worker; for a pipeline, that of its server process.';
comment on column sluice.process.started_at is 'Start of a worker; time at which the last session of a pipeline took the consumer.';
comment on column sluice.process.sources is 'Where it claims or reads: queue Q, log L group G, log L consumer C.';
comment on column sluice.process.concurrency is 'Maximum concurrent calls of handlers in the process; null: only limited per handler.';
comment on column sluice.process.policies is
    'Retry policies that handlers of a worker declare, which override those of the source: source, handler, and the options of a policy.';
comment on column sluice.process.queue_id is 'The log of a pipeline; null: a worker.';

create table sluice.process_report (
    report_id bigint generated always as identity,
    process_id text not null,
    reported_at timestamptz not null,
    backend_pid integer,
    running jsonb,
    counts jsonb,
    times jsonb,
    slowest jsonb,
    ended_at timestamptz,
    last_commit_at timestamptz,
    row_count bigint,
    primary key (process_id, report_id)
);
-- Few: most reports are not the last.
create index process_report_ended_idx on sluice.process_report (ended_at) where ended_at is not null;
comment on table sluice.process_report is
    'Heartbeats of processes; the newest of each counts. Written by sluice.report_worker, sluice.end_worker and sluice.report_pipeline.';
comment on column sluice.process_report.backend_pid is 'The server process of a session that the worker keeps open; null if there is none, as behind a pooler.';
comment on column sluice.process_report.running is
    'Calls of handlers at the time of the report, longest first: handler, queue and msg_id, or log, group or consumer, and ev_id, and since.';
comment on column sluice.process_report.counts is 'Settled messages since the start of the process: handler, then result.';
comment on column sluice.process_report.times is
    'Durations of the calls that ended in the last five to ten minutes: source, handler, max_s, and buckets with lower bound, upper bound and calls.';
comment on column sluice.process_report.slowest is
    'The slowest of these calls, at most five of each handler: as in running, with seconds and ended_at.';
comment on column sluice.process_report.last_commit_at is 'The last commit of a pipeline to the lake.';
comment on column sluice.process_report.row_count is 'Rows that a pipeline has written since it started.';

-- The rule of how long a process is kept: a pipeline until sluice.hold_pipeline finds that its consumer is gone, a worker until it
-- ends or is silent for a day.
create view sluice.reporting as
select p.*, r.report_id, r.reported_at, r.backend_pid, r.running, r.counts, r.times, r.slowest, r.ended_at, r.last_commit_at, r.row_count,
    format('pid %s, role %s', p.pid, p.role_name) || case when p.app <> '' then format(', application %L', p.app) else '' end
        || format(', address %s', p.host) as held_by
from sluice.process as p
left join lateral (
    select newest.*
    from sluice.process_report as newest
    where newest.process_id = p.process_id
    order by newest.report_id desc
    limit 1
) as r on true
where p.queue_id is not null or (r.ended_at is null and r.reported_at > clock_timestamp() - interval '1 day');
comment on view sluice.reporting is 'Processes with their newest report: pipelines, and workers that have not ended or been silent for a day.';
comment on column sluice.reporting.held_by is 'The session of a pipeline that holds the consumer, or was the last to hold it.';

grant select on sluice.process, sluice.process_report, sluice.reporting
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
