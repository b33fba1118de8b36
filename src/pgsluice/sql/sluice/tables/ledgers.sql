-- The ledgers of all share groups. Rows are only appended. Each ledger has two tables below one parent: new rows go to one, and
-- when it has grown, the rows still needed are copied to the other and the first is truncated.
create table sluice.ledger (
    number integer not null check (number in (0, 1)),
    switched_at timestamptz not null default clock_timestamp(),
    kept_bytes bigint not null default 0
);
comment on table sluice.ledger is 'One row: the table of each ledger that gets new rows.';
create unique index ledger_single_idx on sluice.ledger ((true));
comment on column sluice.ledger.kept_bytes is 'Bytes copied from the other tables at the last switch.';
-- One row without a key: for a publication of updates, the whole row identifies it.
alter table sluice.ledger replica identity full;

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
    backlog_snapshot pg_snapshot not null,
    lapsed_until timestamptz not null,
    lapsed_claim bigint not null,
    look_at timestamptz not null,
    open_claim bigint,
    moved_at timestamptz not null,
    clock_shift interval not null default '0',
    is_stored boolean not null default false,
    left_lanes jsonb,
    primary key (group_id, claim_id)
);
comment on table sluice.claim is 'A ledger of claims: one row each; the newest one has the position of its group.';
comment on column sluice.claim.lease_until is 'Null: nothing was claimed, only the position moved.';
comment on column sluice.claim.after_tick is 'The newest tick that after_snapshot covers.';
comment on column sluice.claim.after_seq is 'About the number of the newest event at after_snapshot; only for speed.';
comment on column sluice.claim.from_ev_id is 'Null: from the start of the window.';
comment on column sluice.claim.upto_ev_id is 'The largest number there is: the window is exhausted.';
comment on column sluice.claim.backlog_snapshot is 'Outcomes that this snapshot sees have been read.';
comment on column sluice.claim.lapsed_until is 'Leases that ended up to here, and with lapsed_claim, have been checked.';
comment on column sluice.claim.look_at is 'Before this time no lease ends and no redelivery is due.';
comment on column sluice.claim.open_claim is 'No claim before this one is open. Null: the group was dropped.';
comment on column sluice.claim.moved_at is 'When the position of the group as a consumer was last moved.';
comment on column sluice.claim.clock_shift is
    'Offset of the group clock from the server''s. All times in the ledgers of a group are group time.';
comment on column sluice.claim.is_stored is 'The events of the claim are in sluice.key_event; true for each claim of a group with a key.';
comment on column sluice.claim.left_lanes is
    'Of each lane of left events in sluice.waiting_event with waiting rows: upto, the waiting_id up to which they were claimed; the numbers of events and of keys; since.';
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
    is_backlog boolean not null,
    primary key (group_id, claim_id, outcome_no)
);
comment on table sluice.outcome is 'A ledger of outcomes of claims and their events, in the table with the number of the claim.';
comment on column sluice.outcome.ev_ids is 'Null: all events of the claim; then it is the first row of the claim that settles any.';
comment on column sluice.outcome.events is 'Number of events it settles; a renewal settles none.';
comment on column sluice.outcome.delay is 'From outcome_at on: of a renewal the lease, of a retry the delay, null for the group''s back-off.';
comment on column sluice.outcome.is_backlog is 'Part of the acknowledgement backlog, which a claim reads: redeliveries, and in a group with keys every outcome.';
create index outcome_backlog_idx on sluice.outcome (group_id, outcome_txid) where is_backlog;

-- Redeliveries and lease checks, by their time. Written and read under the lock of the group only, and never behind the last
-- row read: so one position in it suffices.
--
-- A redelivery of a group with keys: an event without a key, or one that does not block its key; or, with a key and no
-- event, a key that may be claimed again.
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
    key text,
    place bigint,
    primary key (group_id, due_at, redelivery_id)
);
comment on table sluice.redelivery is 'A ledger of redeliveries of a group.';
comment on column sluice.redelivery.look_at is 'Not an event: the claim whose lease is checked.';
comment on column sluice.redelivery.attempts is
    'Attempts counted so far; in a row with look_at, the outcome_no of the renewal that expires then.';
comment on column sluice.redelivery.deliveries is 'Deliveries so far.';
comment on column sluice.redelivery.key is 'In a group with keys the key of the event; without an event, the key to check.';
comment on column sluice.redelivery.place is 'In a group with keys, the position of the event in the order of the log.';
create sequence sluice.redelivery_id_seq;

-- The order of events in the log, as groups with keys meet them; and with it the order of everything else in their ledgers.
create sequence sluice.key_place_seq;

/*
 * Ledgers like the others. Rows kept when they are truncated:
 *
 *   key_event      the rows of every claim that is needed itself: that is open, or has unread outcomes.
 *   key_turn       of each key the newest row, unless the key is free: claim_id is null, waiting is 0, returned is empty.
 *   waiting_event  of each key, with that row: is_returned, the rows whose waiting_id is in returned; not is_returned, those with
 *                  a waiting_id above upto_waiting. Without such a row none. Of each lane of the newest claim, the rows above upto.
 */
create table sluice.key_event (
    group_id integer not null,
    claim_id bigint not null,
    place bigint not null,
    key text,
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
    error text,
    primary key (group_id, claim_id, place)
);
comment on table sluice.key_event is 'A ledger of the events in claims of groups with keys.';
comment on column sluice.key_event.key is 'Null: the event has no key, and no order.';
comment on column sluice.key_event.attempts is 'Attempts that counted before this claim.';
comment on column sluice.key_event.deliveries is 'Deliveries before this claim.';

create table sluice.key_turn (
    group_id integer not null,
    key text not null,
    turn_id bigint not null,
    claim_id bigint,
    since timestamptz not null,
    due_at timestamptz not null,
    returned bigint[] not null,
    upto_waiting bigint not null,
    waiting bigint not null,
    primary key (group_id, key, turn_id)
);
comment on table sluice.key_turn is 'A ledger of the states of keys: the newest row of a key counts. A key without one is free.';
comment on column sluice.key_turn.claim_id is 'The one claim with unsettled events of the key.';
comment on column sluice.key_turn.due_at is 'When its next event is redelivered; no other event precedes it.';
comment on column sluice.key_turn.returned is 'The waiting_id of the returned events that wait, in the order of the log.';
comment on column sluice.key_turn.upto_waiting is 'Events never claimed behind this waiting_id wait.';
comment on column sluice.key_turn.waiting is 'Number of these events.';
-- For sluice.list_blocked_keys: rows of keys with waiting events.
create index key_turn_waiting_idx on sluice.key_turn (group_id, key, turn_id) where waiting > 0 or returned <> '{}';

-- A ledger like the others.
create table sluice.waiting_event (
    group_id integer not null,
    is_left boolean not null,
    lane text not null,
    is_returned boolean not null,
    waiting_id bigint not null,
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
    primary key (group_id, is_left, lane, is_returned, waiting_id)
);
comment on table sluice.waiting_event is
    'A ledger of events that waited for their key, or that a claim left to other members of its share group. The newest key_turn of the key, or the newest claim, tells which still wait.';
comment on column sluice.waiting_event.is_left is 'It was left to members that handle its type.';
comment on column sluice.waiting_event.lane is 'The key; or, if is_left, the event type, shortened if it is long; empty: null.';
comment on column sluice.waiting_event.is_returned is 'It was claimed before, and precedes events of its key that were never claimed.';
comment on column sluice.waiting_event.key is
    'Null if it waits for its key, which is the lane. Of a row without an event: the key whose next event has this type.';

do $$
declare
    v_ledger name;
begin
    foreach v_ledger in array array['claim', 'outcome', 'redelivery', 'key_event', 'key_turn', 'waiting_event']
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
-- Few rows of these ledgers are lease checks; sluice._check_renewed_leases finds them among events due for redelivery.
create index redelivery_0_lease_idx on sluice.redelivery_0 (group_id, due_at) where look_at is not null;
create index redelivery_1_lease_idx on sluice.redelivery_1 (group_id, due_at) where look_at is not null;
