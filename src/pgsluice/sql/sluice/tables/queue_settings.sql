-- One row per queue with options; a column that is null stands for the default. A new option is a column here.
create table sluice.queue_settings (
    queue_name varchar primary key references pgmq.meta (queue_name) on delete cascade,
    -- As folded by pgmq.format_table_name(): a queue may be named by any spelling of its name.
    queue_table text not null unique generated always as (lower('q_' || queue_name)) stored,
    paused_at timestamptz,
    paused_by text,
    pause_reason text,
    archive_retention interval,
    max_attempts integer,
    backoff text,
    backoff_base interval,
    backoff_max interval,
    backoff_jitter boolean,
    backoff_factor double precision,
    deduplication_window interval,
    deduplication_until text,
    on_duplicate text,
    deduplication_by text,
    fleet_concurrency integer,
    key_concurrency integer,
    rate integer,
    rate_interval interval,
    when_waiting text,
    priority_weights integer[],
    limits_by text,
    -- Limits that are dropped get a new one, without the earlier starts; deduplication that is turned off gets a new one, without
    -- the earlier keys; so does a queue that is dropped and created again.
    limits_id integer not null unique generated always as identity,
    deduplication_id bigint not null generated always as identity
);
comment on table sluice.queue_settings is
    'Options of queues: pause, retention of the archive, retry policy, deduplication, limits, key order and priorities. Written by sluice.set_queue_options.';
comment on column sluice.queue_settings.paused_at is 'Not null: workers claim no messages.';
comment on column sluice.queue_settings.paused_by is 'The role and the application that paused the queue.';
comment on column sluice.queue_settings.archive_retention is 'Maintenance deletes archived messages that are older; null: never.';
comment on column sluice.queue_settings.max_attempts is 'Attempts before a message is dead-lettered.';
comment on column sluice.queue_settings.backoff_factor is 'Multiplier between attempts, with exponential back-off.';
comment on column sluice.queue_settings.deduplication_window is
    'Time after sending during which a message with the same key is a duplicate; null: none.';
comment on column sluice.queue_settings.deduplication_until is
    'Instead of a window: a message with the same key is a duplicate until the first is claimed or done, which has left the queue. With neither, keys are refused.';
comment on column sluice.queue_settings.on_duplicate is
    'debounce: a duplicate changes the time of the first message; replace: also its payload and headers; null: neither.';
comment on column sluice.queue_settings.deduplication_by is
    'The handler that declared the deduplication, which the next start of a worker may change; null: an operator set it.';
comment on column sluice.queue_settings.when_waiting is
    'Not null: messages of a key are claimed one after the other; the effect on a key of a message that waits for a retry.';
comment on column sluice.queue_settings.priority_weights is 'One per level, the most urgent first.';
comment on column sluice.queue_settings.limits_by is
    'The handler that declared the limits, which the next start of a worker may change; null: an operator set them.';

-- Claims read it.
grant select on sluice.queue_settings to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;

-- The options of a queue that decide about retries, complete. Passed between functions; not stored in a table.
create type sluice.retry_policy as (
    max_attempts integer,
    backoff text,
    backoff_base interval,
    backoff_max interval,
    backoff_jitter boolean,
    backoff_factor double precision
);
