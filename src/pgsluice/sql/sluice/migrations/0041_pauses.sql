-- breaking: no
create table sluice.queue_pause (
    queue_name varchar primary key references pgmq.meta (queue_name) on delete cascade,
    -- As in sluice.queue_limits.
    queue_table text not null unique generated always as (lower('q_' || queue_name)) stored,
    paused_at timestamptz not null,
    paused_by text not null,
    reason text
);
comment on table sluice.queue_pause is 'Paused queues, from which workers claim nothing. Written by sluice.pause_queue.';
comment on column sluice.queue_pause.paused_by is 'The role and the application that paused the queue.';

-- Claims read it.
grant select on sluice.queue_pause to sluice_writer, sluice_reader, sluice_monitor;
grant select, insert, update, delete on sluice.queue_pause to sluice_admin;
