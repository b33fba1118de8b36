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

create table sluice.action (
    action_id bigint generated always as identity primary key,
    acted_at timestamptz not null,
    actor text not null,
    application text not null,
    action text not null,
    queue_name text,
    filter jsonb,
    message_count bigint,
    note text
);
comment on table sluice.action is
    'Actions of operators, written in their transactions by sluice._note_action and kept for 90 days.';
comment on column sluice.action.actor is 'The role of the session.';
comment on column sluice.action.action is 'The name of the function.';
comment on column sluice.action.queue_name is 'The queue or log; null: the action concerns none.';
comment on column sluice.action.filter is 'The arguments that chose the messages or the object.';
comment on column sluice.action.message_count is 'Messages or events that were sent, moved or deleted.';

-- The last failure of each maintenance task, log, queue and share group. Deleted when the task succeeds again, or after a day.
create table sluice.failure (
    task text not null,
    queue_name text not null,
    group_name text not null,
    failed_since timestamptz not null,
    failed_at timestamptz not null,
    error text not null,
    primary key (task, queue_name, group_name)
);
comment on table sluice.failure is
    'Maintenance that failed at its last attempt, one row per task, queue or log, and share group. Written by sluice._note_failure.';
comment on column sluice.failure.queue_name is 'The queue or log; empty: the failure concerns none, or the task as a whole.';
comment on column sluice.failure.group_name is 'The share group; empty if the failure concerns none.';
comment on column sluice.failure.failed_since is 'The first failure since the last success.';
comment on column sluice.failure.failed_at is 'The last failure, to ten seconds.';

grant select on sluice.worker, sluice.worker_report
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
-- A filter may have parts of payloads, so it is not for monitors.
grant select on sluice.action to pgq_admin, sluice_admin;
grant select on sluice.failure to sluice_admin, pgq_admin;
-- Enough for the number of failing steps, without error texts.
grant select (task, queue_name, group_name, failed_since, failed_at) on sluice.failure to sluice_monitor;
