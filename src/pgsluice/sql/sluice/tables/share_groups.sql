create table sluice.share_group (
    group_id integer primary key generated always as identity,
    queue_id integer not null references pgq.queue (queue_id) on delete cascade,
    sub_key integer not null unique references pgq.subscriber (sub_key) on delete cascade,
    owner integer not null,
    log_name text not null,
    group_name text not null,
    lease interval not null default '30 seconds' check (lease > '0'),
    max_attempts integer not null default 5 check (max_attempts >= 1),
    max_deliveries integer not null default 15 check (max_deliveries >= 1),
    backoff text not null default 'exponential' check (backoff in ('constant', 'linear', 'exponential')),
    backoff_base interval not null default '1 second' check (backoff_base >= '0'),
    backoff_max interval not null default '10 minutes' check (backoff_max >= '0'),
    backoff_jitter boolean not null default true,
    key text,
    when_waiting text not null default 'block' check (when_waiting in ('block', 'skip', 'park')),
    lost text,
    created_at timestamptz not null default clock_timestamp(),
    unhandled text not null default 'accept' check (unhandled in ('accept', 'leave', 'dead-letter')),
    types text[] not null default '{}',
    has_others boolean not null default false,
    constraint share_group_name_key unique (log_name, group_name)
);
comment on table sluice.share_group is 'One row per share group of a log, with its settings.';
comment on column sluice.share_group.log_name is 'The name of the log, which never changes: each claim finds the group by both names.';
comment on column sluice.share_group.sub_key is 'The group as a consumer of the log: rotation waits for its position.';
comment on column sluice.share_group.owner is 'The sub_id of the consumer whose own events it sees in addition to those for all consumers.';
comment on column sluice.share_group.max_deliveries is
    'Deliveries after which an event is dead-lettered even without an outcome: a lost reply is not an attempt.';
comment on column sluice.share_group.key is
    'Ordering key of events: a field, ev_type to ev_extra4, or a JSON path into ev_data; null: no order.';
comment on column sluice.share_group.lost is 'Why its position was dropped; null: it was not.';
comment on column sluice.share_group.unhandled is 'Treatment of events of a type that no handler is declared for: accept, leave or dead-letter.';
comment on column sluice.share_group.types is 'The types in sluice.group_type, for sluice.claim.';
comment on column sluice.share_group.has_others is 'True if a handler of all other types is in sluice.group_type.';

-- Members of a share group handle different event types: events of the others' types are left to them. Types that no handler was
-- declared for are counted.
create table sluice.group_type (
    group_id integer not null references sluice.share_group (group_id) on delete cascade,
    is_handled boolean not null,
    ev_type text not null,
    app text not null default '',
    handler text not null default '',
    noted_at timestamptz not null default clock_timestamp(),
    accepted bigint not null default 0,
    dead_lettered bigint not null default 0,
    first_accepted_at timestamptz,
    primary key (group_id, is_handled, ev_type, app, handler)
);
comment on table sluice.group_type is
    'Event types that workers of a share group handle, and those that no handler was declared for. Written by sluice.declare_types and sluice.note_unhandled.';
comment on column sluice.group_type.is_handled is 'False: workers accepted or dead-lettered events of this type without a handler.';
comment on column sluice.group_type.ev_type is
    'Empty: all types that no other handler declares; of an unhandled type null, and others are shortened to 100 characters.';
comment on column sluice.group_type.noted_at is
    'When a worker last declared it, at its start and then every hour; or last met events of an unhandled type.';

-- The result of a claim.
create type sluice.claimed_event as (
    claim_id bigint,
    ev_id bigint,
    ev_time timestamptz,
    ev_txid xid8,
    attempt integer,
    deliveries integer,
    redriven integer,
    lease_until timestamptz,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    key text
);

grant select on sluice.share_group, sluice.group_type
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
