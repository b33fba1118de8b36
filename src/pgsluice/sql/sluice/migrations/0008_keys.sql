-- breaking: no
-- A redelivery of a group with keys: an event without a key, or one that does not block its key; or, with a key and no
-- event, a key that may be claimed again.
alter table sluice.redelivery add column key text, add column place bigint;
comment on column sluice.redelivery.key is 'In a group with keys the key of the event; without an event, the key to check.';
comment on column sluice.redelivery.place is 'In a group with keys, the position of the event in the order of the log.';

alter table sluice.dead_event add column ev_key text, add column ev_place bigint;
comment on column sluice.dead_event.ev_key is 'The key of a parked event, which blocks all events of the key.';
comment on column sluice.dead_event.ev_place is 'The position of a parked event in the order of the log.';
create index dead_event_key_idx on sluice.dead_event (queue_name, group_name, ev_key, ev_place) where reason = 'parked';

-- The order of events in the log, as groups with keys meet them; and with it the order of everything else in their ledgers.
create sequence sluice.key_place_seq;

/*
 * Ledgers like the others. Rows kept when they are truncated:
 *
 *   key_event    the rows of every claim that is needed itself: that is open, or has unread outcomes.
 *   key_turn     of each key the newest row, unless the key is free: claim_id is null, waiting is 0, returned is empty.
 *   key_waiting  of each key, with that row: is_returned, the rows whose waiting_id is in returned; not is_returned, those with a
 *                waiting_id above upto_waiting. Without such a row none.
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

create table sluice.key_waiting (
    group_id integer not null,
    key text not null,
    is_returned boolean not null,
    waiting_id bigint not null,
    place bigint not null,
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
    primary key (group_id, key, is_returned, waiting_id)
);
comment on table sluice.key_waiting is 'A ledger of events that waited for their key; the newest key_turn of the key tells which still wait.';
comment on column sluice.key_waiting.is_returned is 'It was claimed before, and precedes events never claimed.';

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

do $$
declare
    v_ledger name;
begin
    foreach v_ledger in array array['key_event', 'key_waiting', 'key_turn']
    loop
        for v_number in 0 .. 1
        loop
            execute format(
                'create table sluice.%I (like sluice.%2$I including defaults including constraints including indexes)
                    inherits (sluice.%2$I) with (autovacuum_enabled = off, toast.autovacuum_enabled = off)',
                format('%s_%s', v_ledger, v_number), v_ledger
            );
        end loop;
    end loop;
end;
$$;
