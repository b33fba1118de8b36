-- In partitions, whose readers have different rights, and which are unique in different columns.
create table sluice.idempotency_key (
    kind text not null,
    key text not null,
    handler text,
    is_unlogged boolean,
    incarnation bigint,
    msg_id bigint,
    version bigint,
    detail jsonb,
    until text,
    expires_at timestamptz,
    owned_by regrole,
    check (expires_at is not null or kind = 'sink'),
    check (version is not null or kind <> 'sink')
) partition by list (kind);
comment on table sluice.idempotency_key is
    'Keys of what was done and is not to be done again, with their expiry: sent messages, side effects of handlers with their results, and commits of sinks.';
comment on column sluice.idempotency_key.expires_at is 'When it is no longer needed; null: never.';
comment on column sluice.idempotency_key.owned_by is 'The role that stored the key; null: it counts for every role, and a sink gets the next one that commits to it.';
create index idempotency_key_expires_at_idx on sluice.idempotency_key (expires_at) where expires_at is not null;

-- Two partitions, logged and unlogged, like the queue: a crash that empties an unlogged queue also empties the keys of
-- unlogged queues, so that messages sent again are stored.
create table sluice.deduplication_key partition of sluice.idempotency_key (
    primary key (key, incarnation, is_unlogged)
) for values in ('message') partition by list (is_unlogged);
comment on table sluice.deduplication_key is 'Deduplication keys, each with its message.';
comment on column sluice.deduplication_key.msg_id is 'Null only while the transaction that sends it is open.';
comment on column sluice.deduplication_key.until is
    'window, claimed or done: what ends the key, for a message that a duplicate may change; null: the window. Until claimed or done, expires_at is when maintenance checks the message.';

create table sluice.deduplication_key_logged partition of sluice.deduplication_key for values in (false);
create unlogged table sluice.deduplication_key_unlogged partition of sluice.deduplication_key for values in (true);

create table sluice.inbox partition of sluice.idempotency_key (
    primary key (handler, key)
) for values in ('handler');
comment on table sluice.inbox is 'Idempotency keys of handlers.';

create table sluice.sink_commit partition of sluice.idempotency_key (
    primary key (key)
) for values in ('sink');
comment on table sluice.sink_commit is
    'The newest committed version of each sink, its key: written in the transaction of its rows, so that a repeated write adds nothing.';
comment on column sluice.sink_commit.detail is 'Detail stored by the writer.';

create table sluice.result partition of sluice.idempotency_key (
    primary key (incarnation, msg_id),
    check (detail is not null)
) for values in ('result');
comment on table sluice.result is 'Kept results of handlers, each with its message.';
comment on column sluice.result.incarnation is 'The oid of the queue''s table.';
comment on column sluice.result.detail is 'The result; JSON null for a handler that returned nothing.';

-- Functions of the schemas' owner write the keys of other roles.
grant select, insert, update, delete on sluice.idempotency_key, sluice.deduplication_key, sluice.inbox, sluice.result, sluice.sink_commit
to sluice_admin;
grant select on sluice.inbox to sluice_reader;
grant select, insert, update on sluice.result to sluice_reader;
grant select on sluice.sink_commit to sluice_writer, pgq_writer, pgq_admin, sluice_monitor;
