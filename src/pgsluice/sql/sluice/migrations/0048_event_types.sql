-- breaking: no
-- Members of a share group handle different event types: events of the others' types are left to them.
alter type sluice.claimed_event add attribute key text;

alter table sluice.share_group
    add column unhandled text not null default 'accept' check (unhandled in ('accept', 'leave', 'dead-letter')),
    add column types text[] not null default '{}',
    add column has_others boolean not null default false;
comment on column sluice.share_group.unhandled is 'Treatment of events of a type that no handler is declared for: accept, leave or dead-letter.';
comment on column sluice.share_group.types is 'The types in sluice.group_type, for sluice.claim.';
comment on column sluice.share_group.has_others is 'True if a handler of all other types is in sluice.group_type.';

create table sluice.group_type (
    group_id integer not null references sluice.share_group (group_id) on delete cascade,
    ev_type text not null,
    app text not null,
    handler text not null,
    declared_at timestamptz not null default clock_timestamp(),
    primary key (group_id, ev_type, app, handler)
);
comment on table sluice.group_type is 'Event types that workers of a share group handle. Written by sluice.declare_types.';
comment on column sluice.group_type.ev_type is 'Empty: all types that no other handler declares.';
comment on column sluice.group_type.declared_at is 'When a worker last declared it: at its start and then every hour.';

create table sluice.unhandled_type (
    group_id integer not null references sluice.share_group (group_id) on delete cascade,
    ev_type text not null,
    outcome text not null,
    events bigint not null,
    first_at timestamptz not null default clock_timestamp(),
    last_at timestamptz not null default clock_timestamp(),
    primary key (group_id, ev_type, outcome)
);
comment on table sluice.unhandled_type is
    'Events of types that no handler was declared for, which workers accepted or dead-lettered. Written by sluice.note_unhandled.';
comment on column sluice.unhandled_type.ev_type is 'Shortened to 100 characters; empty: null.';

-- A ledger like the others, of events that a claim left to other members of its group, by type.
create table sluice.left_event (
    group_id integer not null,
    lane text not null,
    left_id bigint not null,
    place bigint,
    key text,
    ev_id bigint,
    ev_time timestamptz,
    ev_txid xid8,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    redriven integer,
    attempts integer,
    deliveries integer,
    error text,
    primary key (group_id, lane, left_id)
);
comment on table sluice.left_event is
    'A ledger of events that a claim left to other members of its share group. The newest claim names those that still wait.';
comment on column sluice.left_event.lane is 'The event type, shortened if it is long; empty: null.';
comment on column sluice.left_event.key is 'Of a row without an event: the key whose next event has this type.';
do $$
begin
    for v_number in 0 .. 1
    loop
        execute format(
            'create table sluice.%I (like sluice.left_event including defaults including constraints including indexes)
                inherits (sluice.left_event) with (autovacuum_enabled = off, toast.autovacuum_enabled = off)',
            format('left_event_%s', v_number)
        );
    end loop;
end;
$$;

alter table sluice.claim
    add column is_stored boolean not null default false,
    add column left_lanes jsonb;
comment on column sluice.claim.is_stored is 'The events of the claim are in sluice.key_event; true for each claim of a group with a key.';
comment on column sluice.claim.left_lanes is
    'Of each lane of sluice.left_event with waiting rows: upto, the left_id up to which they were claimed; the numbers of events and of keys; since.';

-- Replaced by functions with more arguments or results.
drop function if exists sluice.claim(text, text, integer, interval, boolean);
drop function if exists sluice.next_group_due(text, text, timestamptz);
drop function if exists sluice.group_info(text, text);
drop function if exists sluice.list_groups(text);
drop function if exists sluice._take_keyed_redeliveries(sluice.share_group, integer, sluice.claim);
drop function if exists sluice._take_keyed_events(sluice.share_group, integer, sluice.claim);
drop function if exists sluice._sort_events(sluice.share_group, integer, sluice.claim, pgq.event_template[]);

grant select on sluice.group_type, sluice.unhandled_type to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
