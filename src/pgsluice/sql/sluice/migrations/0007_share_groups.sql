-- breaking: no
create table sluice.share_group (
    group_id integer primary key generated always as identity,
    queue_id integer not null references pgq.queue (queue_id) on delete cascade,
    sub_key integer not null unique references pgq.subscriber (sub_key) on delete cascade,
    owner integer not null,
    queue_name text not null,
    group_name text not null,
    lease interval not null default '30 seconds' check (lease > '0'),
    max_attempts integer not null default 5 check (max_attempts >= 1),
    max_deliveries integer not null default 15 check (max_deliveries >= 1),
    backoff text not null default 'exponential' check (backoff in ('constant', 'linear', 'exponential')),
    backoff_base interval not null default '1 second' check (backoff_base >= '0'),
    backoff_cap interval not null default '10 minutes' check (backoff_cap >= '0'),
    backoff_jitter boolean not null default true,
    dead_letter_log text,
    key text,
    when_waiting text not null default 'block' check (when_waiting in ('block', 'skip', 'park')),
    lost text,
    created_at timestamptz not null default clock_timestamp(),
    constraint share_group_name_key unique (queue_name, group_name)
);
comment on table sluice.share_group is 'One row per share group of a log, with its settings.';
comment on column sluice.share_group.queue_name is 'The name of the log, which never changes: each claim finds the group by both names.';
comment on column sluice.share_group.sub_key is 'The group as a consumer of the log: rotation waits for its position.';
comment on column sluice.share_group.owner is 'The sub_id of the consumer whose own events it sees in addition to those for all consumers.';
comment on column sluice.share_group.max_deliveries is
    'Deliveries after which an event is dead-lettered even without an outcome: a lost reply is not an attempt.';
comment on column sluice.share_group.dead_letter_log is 'The log that dead events are appended to; null: sluice.dead_event.';
comment on column sluice.share_group.key is
    'Ordering key of events: a field, ev_type to ev_extra4, or a JSON path into ev_data; null: no order.';

comment on column sluice.share_group.lost is 'Why its position was dropped; null: it was not.';

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
    ev_extra4 text
);

-- The ledgers of all groups. Rows are only appended. Each ledger has two tables below one parent: new rows go to one, and
-- when it has grown, the rows still needed are copied to the other and the first is truncated.
create table sluice.ledger (
    number integer not null check (number in (0, 1)),
    switched_at timestamptz not null default clock_timestamp()
);
comment on table sluice.ledger is 'One row: the table of each ledger that gets new rows.';
create unique index ledger_single_idx on sluice.ledger ((true));
insert into sluice.ledger (number) values (0);

-- The claims of a group; the newest one has the position of the group.
create table sluice.claim (
    group_id integer not null,
    claim_id bigint not null,
    claimed_at timestamptz not null,
    lease_until timestamptz,
    -- The window: events that upto_snapshot sees and after_snapshot does not. The claim has those behind from_ev_id up to upto_ev_id.
    after_tick bigint not null,
    after_snapshot pg_snapshot not null,
    after_seq bigint not null,
    upto_tick bigint not null,
    upto_snapshot pg_snapshot not null,
    upto_seq bigint not null,
    from_ev_id bigint,
    upto_ev_id bigint not null,
    events integer not null,
    -- And these redeliveries, by their time and number.
    from_due timestamptz not null,
    from_redelivery bigint not null,
    upto_due timestamptz not null,
    upto_redelivery bigint not null,
    redeliveries integer not null,
    -- The position of the group.
    mail_snapshot pg_snapshot not null,
    lapsed_until timestamptz not null,
    lapsed_claim bigint not null,
    look_at timestamptz not null,
    open_claim bigint,
    moved_at timestamptz not null,
    primary key (group_id, claim_id)
);
comment on table sluice.claim is 'A ledger of claims: one row each; the newest one has the position of its group.';
comment on column sluice.claim.lease_until is 'Null: nothing was claimed, only the position moved.';
comment on column sluice.claim.after_tick is 'The newest tick that after_snapshot covers.';
comment on column sluice.claim.after_seq is 'About the number of the newest event at after_snapshot; only for speed.';
comment on column sluice.claim.from_ev_id is 'Null: from the start of the window.';
comment on column sluice.claim.upto_ev_id is 'The largest number there is: the window is exhausted.';
comment on column sluice.claim.mail_snapshot is 'Outcomes that this snapshot sees have been read.';
comment on column sluice.claim.lapsed_until is 'Leases that ended up to here, and with lapsed_claim, have been checked.';
comment on column sluice.claim.look_at is 'Before this time no lease ends and no redelivery is due.';
comment on column sluice.claim.open_claim is 'No claim before this one is open. Null: the group was dropped.';
comment on column sluice.claim.moved_at is 'When the position of the group as a consumer was last moved.';
create index claim_lease_idx on sluice.claim (group_id, lease_until, claim_id) where lease_until is not null;

-- Outcomes of claims.
create table sluice.outcome (
    group_id integer not null,
    claim_id bigint not null,
    outcome_no integer not null,
    outcome_txid xid8 not null default pg_current_xact_id(),
    outcome_at timestamptz not null default clock_timestamp(),
    outcome text not null check (outcome in ('accept', 'release', 'retry', 'reject', 'renew', 'lapse')),
    ev_ids bigint[],
    events integer not null,
    delay interval,
    error text,
    is_mail boolean not null,
    primary key (group_id, claim_id, outcome_no)
);
comment on table sluice.outcome is 'A ledger of outcomes of claims and their events, in the table with the number of the claim.';
comment on column sluice.outcome.ev_ids is 'Null: all events of the claim; then it is the first row of the claim that settles any.';
comment on column sluice.outcome.events is 'Number of events it settles; a renewal settles none.';
comment on column sluice.outcome.delay is 'From outcome_at on: of a renewal the lease, of a retry the delay, null for the group''s back-off.';
comment on column sluice.outcome.is_mail is 'Part of the acknowledgement backlog, which a claim reads: redeliveries, and in a group with keys every outcome.';
create index outcome_mail_idx on sluice.outcome (group_id, outcome_txid) where is_mail;

-- Redeliveries and lease checks, by their time. Written and read under the lock of the group only, and never behind the last
-- row read: so one position in it suffices.
create table sluice.redelivery (
    group_id integer not null,
    due_at timestamptz not null,
    redelivery_id bigint not null,
    look_at bigint,
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
    primary key (group_id, due_at, redelivery_id)
);
comment on table sluice.redelivery is 'A ledger of redeliveries of a group.';
comment on column sluice.redelivery.look_at is 'Not an event: the claim whose lease is checked.';
comment on column sluice.redelivery.attempts is 'Attempts that counted so far.';
comment on column sluice.redelivery.deliveries is 'Deliveries so far.';
create sequence sluice.redelivery_id_seq;

do $$
declare
    v_ledger name;
begin
    foreach v_ledger in array array['claim', 'outcome', 'redelivery']
    loop
        for v_number in 0 .. 1
        loop
            -- No autovacuum: rows are appended, and removed by TRUNCATE.
            execute format(
                'create table sluice.%I (like sluice.%2$I including defaults including constraints including indexes)
                    inherits (sluice.%2$I) with (autovacuum_enabled = off, toast.autovacuum_enabled = off)',
                format('%s_%s', v_ledger, v_number), v_ledger
            );
        end loop;
    end loop;
end;
$$;

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
    dead_at timestamptz not null default clock_timestamp()
);
comment on table sluice.dead_event is 'Dead-lettered events of share groups, with the reason and the last error.';
comment on column sluice.dead_event.redriven is 'Number of earlier redrives.';
create index dead_event_group_idx on sluice.dead_event (queue_name, group_name, dead_event_id);

grant select on sluice.share_group to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
grant select on sluice.dead_event to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
