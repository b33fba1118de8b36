-- breaking: no
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
grant select on sluice.failure to sluice_admin, pgq_admin;
