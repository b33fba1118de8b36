-- breaking: no
create table sluice.queue_limits (
    queue_name varchar primary key references pgmq.meta (queue_name) on delete cascade,
    -- As pgmq.format_table_name() folds it: a queue may be read by any spelling of its name.
    queue_table text not null unique generated always as (lower('q_' || queue_name)) stored,
    -- Limits that are dropped and set again get a new one, and with it no starts and no parked keys of before.
    limits_id integer not null unique generated always as identity,
    fleet_concurrency integer,
    key_concurrency integer,
    rate integer,
    rate_interval interval,
    when_waiting text,
    priority_weights integer[]
);
comment on table sluice.queue_limits is
    'How much of a queue may be claimed at once or in a time, and in which order, for each queue that has limits.';
comment on column sluice.queue_limits.when_waiting is
    'Not null: messages of a key are claimed one after the other, and this becomes of a key while one of it waits to be retried.';
comment on column sluice.queue_limits.priority_weights is 'One for each level, the most urgent first.';

-- A ledger: rows are appended, one for each claim from a queue with a rate. before is a running total, so what was started in
-- a time is the difference of two rows, however many lie between them.
create table sluice.queue_start (
    limits_id integer not null,
    started_at timestamptz not null,
    before bigint not null,
    started integer not null,
    primary key (limits_id, started_at, before)
);
comment on table sluice.queue_start is 'A ledger of the claims from queues with a rate: when, how many, and how many before.';

create table sluice.parked_key (
    limits_id integer not null references sluice.queue_limits (limits_id) on delete cascade,
    key_hash bigint not null,
    key text not null,
    msg_id bigint not null,
    parked_at timestamptz not null,
    primary key (limits_id, key_hash)
);
comment on table sluice.parked_key is
    'Keys of queues of which nothing is claimed until sluice.unpark_messages, and the message for which that is so.';

grant select on sluice.queue_limits to sluice_writer, sluice_reader, sluice_monitor;
grant select, insert, update, delete on sluice.queue_limits to sluice_admin;
grant select on sluice.queue_start, sluice.parked_key to sluice_monitor;
-- Claims write them.
grant select, insert, delete on sluice.queue_start to sluice_reader;
grant select, insert, update, delete on sluice.queue_start to sluice_admin;
grant select, insert on sluice.parked_key to sluice_reader;
grant select, insert, delete on sluice.parked_key to sluice_admin;
