-- Nobody else can: it is under the lock of the group, and no claim has the key. First what was handed out before, then what never was; both are
-- found by number, whatever was there before.
create or replace function sluice._take_key(
    i_group sluice.share_group, i_claim sluice.claim, i_key text, i_qty integer, i_now timestamptz
)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_parked_max constant integer := 1000; -- a call; the next one goes on
    v_turn sluice.key_turn := sluice._last_turn(i_group.group_id, i_key);
    v_is_parked boolean;
    v_qty integer := i_qty;
    v_events sluice.redelivery[];
    v_look sluice.redelivery;
    v_returned integer;
begin
    if v_turn.claim_id is not null or v_turn.due_at > i_now then
        return 0; -- it is written when to look again
    end if;
    v_is_parked := sluice._parked_keys(i_group, array[i_key]) <> '{}';
    if v_is_parked then
        v_qty := v_parked_max;
    end if;
    select array_agg(
        row(
            w.group_id, null, w.waiting_id, null, w.ev_id, w.ev_time, w.ev_txid, w.ev_type, w.ev_data,
            w.ev_extra1, w.ev_extra2, w.ev_extra3, w.ev_extra4, w.redriven, w.attempts, w.deliveries, w.error, w.key, w.place
        )::sluice.redelivery
        order by not w.is_returned, w.place
    )
    into v_events
    from (
        select r.*
        from sluice.key_waiting as r
        where r.group_id = i_group.group_id and r.key = i_key and r.is_returned and r.waiting_id = any (v_turn.returned[1:v_qty])
        union all
        (
            select q.*
            from sluice.key_waiting as q
            where q.group_id = i_group.group_id and q.key = i_key and not q.is_returned and q.waiting_id > v_turn.upto_waiting
            order by q.waiting_id
            limit greatest(0, v_qty - cardinality(v_turn.returned))
        )
    ) as w;
    if v_events is null then
        return 0;
    end if;

    v_returned := cardinality(v_turn.returned[1:v_qty]);
    v_turn.returned := v_turn.returned[v_qty + 1:];
    if cardinality(v_events) > v_returned then
        v_turn.waiting := v_turn.waiting - (cardinality(v_events) - v_returned);
        v_turn.upto_waiting := (v_events[cardinality(v_events)]).redelivery_id;
    end if;
    if v_is_parked then
        perform sluice._park_events(i_group, i_claim.claim_id, v_events);
        perform sluice._write_turns(array[v_turn]);
        if v_turn.waiting > 0 or v_turn.returned <> '{}' then
            v_look.key := i_key;
            v_look.due_at := i_now;
            perform sluice._write_redelivery(i_claim, v_look);
        end if;
        return 0;
    end if;
    v_turn.claim_id := i_claim.claim_id;
    v_turn.since := clock_timestamp();
    v_turn.due_at := '-infinity';
    perform sluice._write_turns(array[v_turn]);
    perform sluice._write_key_events(i_claim.claim_id, v_events);
    return cardinality(v_events);
end;
$$;

comment on function sluice._take_key(sluice.share_group, sluice.claim, text, integer, timestamptz) is
    'Take the next events of a key that no claim has, and whose time has come; returns how many. Of a parked key they are put aside.';
revoke execute on function sluice._take_key(sluice.share_group, sluice.claim, text, integer, timestamptz) from public;
grant execute on function sluice._take_key(sluice.share_group, sluice.claim, text, integer, timestamptz) to pgq_admin, sluice_admin;
