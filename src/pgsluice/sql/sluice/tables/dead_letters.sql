-- In two partitions, whose readers have different rights: those of queues, and those of logs.
create sequence sluice.dead_letter_id_seq;

create table sluice.dead_letter (
    dead_letter_id bigint not null default nextval('sluice.dead_letter_id_seq'),
    queue_name text not null,
    consumer_name text,
    msg_id bigint not null,
    read_ct integer not null,
    enqueued_at timestamptz not null,
    last_read_at timestamptz,
    message jsonb,
    headers jsonb,
    reason text not null,
    error text,
    dead_at timestamptz not null default clock_timestamp(),
    attempts integer,
    first_failed_at timestamptz,
    error_type text,
    trace text,
    worker text,
    redriven integer not null default 0,
    claim_id bigint,
    ev_txid xid8,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    key text,
    place bigint
) partition by list (consumer_name);
comment on table sluice.dead_letter is
    'Dead letters: messages and events after their last attempt, with the reason and the last error.';
comment on column sluice.dead_letter.queue_name is 'The queue, or the log of an event.';
comment on column sluice.dead_letter.consumer_name is 'The share group or consumer that the event failed for; null: a message of a queue.';
comment on column sluice.dead_letter.msg_id is 'The msg_id of a message, or the ev_id of an event.';
comment on column sluice.dead_letter.read_ct is 'Number of deliveries.';
comment on column sluice.dead_letter.enqueued_at is 'The enqueued_at of a message, or the ev_time of an event.';
comment on column sluice.dead_letter.attempts is 'Number of attempts; null: not counted.';
comment on column sluice.dead_letter.redriven is 'Number of earlier redrives to a share group.';
comment on column sluice.dead_letter.claim_id is 'The last claim of an event of a share group.';
comment on column sluice.dead_letter.key is 'The key of a parked event, which blocks all events of the key.';
comment on column sluice.dead_letter.place is 'The position of a parked event in the order of the log.';

create table sluice.dead_letter_message partition of sluice.dead_letter (primary key (dead_letter_id)) for values in (null);
comment on table sluice.dead_letter_message is 'Dead letters of queues.';
-- Dead letters have their queue's name as given: names are case-insensitive.
create index dead_letter_message_queue_idx on sluice.dead_letter_message (lower(queue_name), dead_letter_id);
create index dead_letter_message_msg_id_idx on sluice.dead_letter_message (lower(queue_name), msg_id);
-- The oldest of a queue are purged first.
create index dead_letter_message_time_idx on sluice.dead_letter_message (lower(queue_name), dead_at);

create table sluice.dead_letter_event partition of sluice.dead_letter (primary key (dead_letter_id)) default;
comment on table sluice.dead_letter_event is 'Dead letters of share groups and consumers of logs.';
create index dead_letter_event_consumer_idx on sluice.dead_letter_event (queue_name, consumer_name, dead_letter_id);
create index dead_letter_event_msg_id_idx on sluice.dead_letter_event (queue_name, consumer_name, msg_id);
create index dead_letter_event_key_idx on sluice.dead_letter_event (queue_name, consumer_name, key, place) where reason = 'parked';
-- The oldest of a consumer are purged first.
create index dead_letter_event_time_idx on sluice.dead_letter_event (queue_name, consumer_name, dead_at);

-- Selects dead letters; the members are the keys of the filters of functions, see sluice._dead_letter_filter.
create type sluice.dead_letter_filter as (
    dead_letter_ids bigint[],
    msg_ids bigint[],
    message jsonb,
    headers jsonb,
    ev_type text,
    reason text,
    error_type text,
    error text,
    matching text,
    since timestamptz,
    until timestamptz
);

-- As of queues and archives, see pgmq._grant_queue.
grant select (queue_name, msg_id, read_ct, enqueued_at, last_read_at) on sluice.dead_letter_message to sluice_monitor;
grant select on sluice.dead_letter to sluice_reader, sluice_admin;
grant usage on sequence sluice.dead_letter_id_seq to sluice_reader, sluice_admin;
grant select, insert on sluice.dead_letter_message to sluice_reader;
-- They are locked before they are moved.
grant select, insert, update, delete on sluice.dead_letter_message to sluice_admin;
grant select on sluice.dead_letter_event to pgq_reader, sluice_reader;
grant select, update, delete on sluice.dead_letter_event to pgq_admin, sluice_admin;
