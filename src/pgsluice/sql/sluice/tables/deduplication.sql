-- Two partitions, logged and unlogged, like the queue: a crash that empties an unlogged queue also empties the keys of
-- unlogged queues, so that messages sent again are stored.
create table sluice.deduplication_key (
    is_unlogged boolean not null,
    incarnation bigint not null,
    key text not null,
    msg_id bigint, -- null only while the transaction that sends it is open
    expires_at timestamptz not null,
    sent_by regrole,
    primary key (key, incarnation, is_unlogged)
) partition by list (is_unlogged);
comment on table sluice.deduplication_key is
    'Deduplication keys, each with its message and expiry.';
comment on column sluice.deduplication_key.sent_by is 'The role that sent the key.';
create index deduplication_key_expires_at_idx on sluice.deduplication_key (expires_at);

create table sluice.deduplication_key_logged partition of sluice.deduplication_key for values in (false);
create unlogged table sluice.deduplication_key_unlogged partition of sluice.deduplication_key for values in (true);

create table sluice.inbox (
    handler text not null,
    key text not null,
    expires_at timestamptz not null,
    recorded_by regrole,
    primary key (handler, key)
);
comment on table sluice.inbox is
    'Idempotency keys of handlers, with their expiry.';
comment on column sluice.inbox.recorded_by is 'The role that recorded the key.';
create index inbox_expires_at_idx on sluice.inbox (expires_at);

-- Functions of the schemas' owner write the keys of other roles.
grant select, insert, update, delete on sluice.deduplication_key to sluice_admin;
grant select on sluice.inbox to sluice_reader;
grant select, insert, update, delete on sluice.inbox to sluice_admin;
