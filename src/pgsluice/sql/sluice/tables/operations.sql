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
    'Actions of operators, written in their transactions by sluice.note_action and kept for 90 days.';
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

-- A filter may have parts of payloads, so it is not for monitors.
grant select on sluice.action to pgq_admin, sluice_admin;
grant select on sluice.failure to sluice_admin, pgq_admin;
-- Enough for the number of failing steps, without error texts.
grant select (task, queue_name, group_name, failed_since, failed_at) on sluice.failure to sluice_monitor;
