create table sluice.dead_letter (
    dead_letter_id bigint generated always as identity primary key,
    queue_name text not null,
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
    worker text
);
comment on table sluice.dead_letter is
    'Dead letters: messages after their last attempt, with the reason and the last error.';
comment on column sluice.dead_letter.attempts is 'Number of attempts; null: not counted.';
-- Dead letters have their queue's name as given: names are case-insensitive.
create index dead_letter_queue_idx on sluice.dead_letter (lower(queue_name), dead_letter_id);
create index dead_letter_msg_id_idx on sluice.dead_letter (lower(queue_name), msg_id);
-- The oldest of a queue are purged first.
create index dead_letter_time_idx on sluice.dead_letter (lower(queue_name), dead_at);

create table sluice.dead_event (
    dead_event_id bigint primary key generated always as identity,
    queue_name text not null,
    group_name text not null,
    claim_id bigint not null,
    ev_id bigint not null,
    ev_time timestamptz not null,
    ev_txid xid8 not null,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    redriven integer not null,
    attempts integer not null,
    deliveries integer not null,
    reason text not null,
    error text,
    dead_at timestamptz not null default clock_timestamp(),
    ev_key text,
    ev_place bigint
);
comment on table sluice.dead_event is 'Dead-lettered events of share groups, with the reason and the last error.';
comment on column sluice.dead_event.redriven is 'Number of earlier redrives.';
comment on column sluice.dead_event.ev_key is 'The key of a parked event, which blocks all events of the key.';
comment on column sluice.dead_event.ev_place is 'The position of a parked event in the order of the log.';
create index dead_event_group_idx on sluice.dead_event (queue_name, group_name, dead_event_id);
create index dead_event_key_idx on sluice.dead_event (queue_name, group_name, ev_key, ev_place) where reason = 'parked';
-- The oldest of a group are purged first.
create index dead_event_time_idx on sluice.dead_event (queue_name, group_name, dead_at);

grant select, insert on sluice.dead_letter to sluice_reader;
-- They are locked before they are moved.
grant select, insert, update, delete on sluice.dead_letter to sluice_admin;
grant select on sluice.dead_event to pgq_reader, sluice_reader;
grant select, update, delete on sluice.dead_event to pgq_admin, sluice_admin;
