-- Logged: a crash would empty an unlogged table, and the remaining triggers would never notify again.
create table pgmq.notify_insert_throttle (
    queue_name varchar not null unique
        constraint notify_insert_throttle_meta_queue_name_fk references pgmq.meta (queue_name) on delete cascade,
    throttle_interval_ms integer not null default 0,
    last_notified_at timestamptz not null default to_timestamp(0)
);
comment on table pgmq.notify_insert_throttle is 'Queues that notify listeners of new messages, with their throttle interval.';
comment on column pgmq.notify_insert_throttle.throttle_interval_ms is
    'Minimum milliseconds between two notifications; 0: every statement that sends notifies.';
-- Senders never update this row: its lock would be held until their commit and block all other senders.
comment on column pgmq.notify_insert_throttle.last_notified_at is
    'Last value written by PGMQ. The current value is in a sequence of the queue: see pgmq.list_notify_insert_throttles().';
create index idx_notify_throttle_active on pgmq.notify_insert_throttle (queue_name, last_notified_at)
where throttle_interval_ms > 0;
alter table pgmq.notify_insert_throttle replica identity using index notify_insert_throttle_queue_name_key;

grant select on pgmq.notify_insert_throttle to sluice_writer, sluice_reader, sluice_monitor;
grant select, insert, update, delete on pgmq.notify_insert_throttle to sluice_admin;
grant select on pgmq.notify_insert_throttle to pg_monitor;
