-- breaking: no
-- Logged: after a crash an unlogged one is empty, and its triggers, still there, notify nobody any more.
create table pgmq.notify_insert_throttle (
    queue_name varchar not null unique
        constraint notify_insert_throttle_meta_queue_name_fk references pgmq.meta (queue_name) on delete cascade,
    throttle_interval_ms integer not null default 0,
    last_notified_at timestamptz not null default to_timestamp(0)
);
comment on table pgmq.notify_insert_throttle is 'Which queues notify listeners of new messages, and how often at most.';
comment on column pgmq.notify_insert_throttle.throttle_interval_ms is
    'Least milliseconds between two notifications; 0: every statement that sends notifies.';
-- A sender never updates this row: it would hold its lock until it commits, and every other sender would wait.
comment on column pgmq.notify_insert_throttle.last_notified_at is
    'What PGMQ left here. The moment itself is in a sequence of the queue: see pgmq.list_notify_insert_throttles().';
create index idx_notify_throttle_active on pgmq.notify_insert_throttle (queue_name, last_notified_at)
where throttle_interval_ms > 0;

grant select on pgmq.notify_insert_throttle to sluice_writer, sluice_reader, sluice_monitor;
grant select, insert, update, delete on pgmq.notify_insert_throttle to sluice_admin;
grant select on pgmq.notify_insert_throttle to pg_monitor;
