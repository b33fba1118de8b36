-- breaking: no
create table sluice.deduplication (
    queue_name varchar primary key references pgmq.meta (queue_name) on delete cascade,
    -- As pgmq.format_table_name() folds it: a message may be sent by any spelling of the queue's name.
    queue_table text not null unique generated always as (lower('q_' || queue_name)) stored,
    deduplication_window interval not null,
    -- A queue that is dropped and made again gets a new one, and with it no key of the old one.
    incarnation bigint not null generated always as identity
);
comment on table sluice.deduplication is
    'Which queues send a message with a known key only once, and how long a key is known.';

-- In two parts, and a queue's keys are in the one of its kind: a crash that empties an unlogged queue empties the keys of
-- unlogged queues with it, and what is sent again then is stored again.
create table sluice.deduplication_key (
    is_unlogged boolean not null,
    incarnation bigint not null,
    key text not null,
    msg_id bigint, -- null only while the transaction that sends it is open
    expires_at timestamptz not null,
    primary key (key, incarnation, is_unlogged)
) partition by list (is_unlogged);
comment on table sluice.deduplication_key is
    'The keys that were sent, the message that each stands for, and until when.';
create index deduplication_key_expires_at_idx on sluice.deduplication_key (expires_at);

create table sluice.deduplication_key_logged partition of sluice.deduplication_key for values in (false);
create unlogged table sluice.deduplication_key_unlogged partition of sluice.deduplication_key for values in (true);

grant select on sluice.deduplication to sluice_writer, sluice_reader, sluice_monitor;
grant select, insert, update, delete on sluice.deduplication to sluice_admin;
grant select, insert, update on sluice.deduplication_key to sluice_writer;
grant select, insert, update, delete on sluice.deduplication_key to sluice_admin;
