-- Redeliveries come first, then waiting events; both are found by number, whatever the backlog before them. The events of a parked key are parked. At an event
-- of a type that the member does not handle the claim stops, and if it is the first, the key is left to the members that handle it.
create or replace function sluice._take_key(
    i_group sluice.share_group, i_qty integer, i_types text[], i_is_except boolean, i_key text, inout claim sluice.claim
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_parked_max constant integer := 1000; -- per step; the next one continues
    v_turn sluice.key_turn := sluice._last_turn(i_group.group_id, i_key);
    v_is_parked boolean;
    v_qty integer;
    v_events sluice.redelivery[];
    v_rest sluice.redelivery;
    v_returned integer;
    v_other integer;
begin
    if v_turn.claim_id is not null or v_turn.due_at > claim.claimed_at then
        return; -- the time of the next check is stored
    end if;
    v_is_parked := sluice._parked_keys(i_group, array[i_key]) <> '{}';
    v_qty := case when v_is_parked then v_parked_max else i_qty - claim.redeliveries end;
    select array_agg(
        row(
            w.group_id, null, w.waiting_id, null, w.ev_id, w.ev_time, w.ev_txid, w.ev_type, w.ev_data,
            w.ev_extra1, w.ev_extra2, w.ev_extra3, w.ev_extra4, w.redriven, w.attempts, w.deliveries, w.error, w.lane, w.place
        )::sluice.redelivery
        order by not w.is_returned, w.place
    )
    into v_events
    from (
        select r.*
        from sluice.waiting_event as r
        where r.group_id = i_group.group_id
          and not r.is_left
          and r.lane = i_key
          and r.is_returned
          and r.waiting_id = any (v_turn.returned[1:v_qty])
        union all
        (
            select q.*
            from sluice.waiting_event as q
            where q.group_id = i_group.group_id
              and not q.is_left
              and q.lane = i_key
              and not q.is_returned
              and q.waiting_id > v_turn.upto_waiting
            order by q.waiting_id
            limit greatest(0, v_qty - cardinality(v_turn.returned))
        )
    ) as w;
    if v_events is null then
        return;
    end if;
    v_returned := cardinality(v_turn.returned[1:v_qty]);
    if not v_is_parked and not (i_is_except and i_types = '{}') then
        select min(e.position)
        into v_other
        from unnest(v_events) with ordinality as e (
            group_id, due_at, redelivery_id, look_at, ev_id, ev_time, ev_txid, ev_type, ev_data,
            ev_extra1, ev_extra2, ev_extra3, ev_extra4, redriven, attempts, deliveries, error, key, place, position
        )
        where (coalesce(e.ev_type, '') = any (i_types)) = i_is_except;
        if v_other = 1 then
            v_rest.key := i_key;
            v_rest.ev_type := (v_events[1]).ev_type;
            claim := sluice._leave(array[v_rest], claim);
            return;
        elsif v_other > 1 then
            v_events := v_events[1:v_other - 1];
            v_returned := least(v_returned, v_other - 1);
        end if;
    end if;

    v_turn.returned := v_turn.returned[v_returned + 1:];
    if cardinality(v_events) > v_returned then
        v_turn.waiting := v_turn.waiting - (cardinality(v_events) - v_returned);
        v_turn.upto_waiting := (v_events[cardinality(v_events)]).redelivery_id;
    end if;
    if v_is_parked then
        perform sluice._dead_letter(i_group, claim.claim_id, v_events, 'parked', null::jsonb);
        perform sluice._write_turns(array[v_turn]);
        if v_turn.waiting > 0 or v_turn.returned <> '{}' then
            v_rest.key := i_key;
            v_rest.due_at := claim.claimed_at;
            perform sluice._write_redelivery(claim, v_rest);
        end if;
        return;
    end if;
    v_turn.claim_id := claim.claim_id;
    v_turn.since := clock_timestamp();
    v_turn.due_at := '-infinity';
    perform sluice._write_turns(array[v_turn]);
    perform sluice._write_key_events(claim.claim_id, v_events);
    claim.redeliveries := claim.redeliveries + cardinality(v_events);
end;
$$;

comment on function sluice._take_key(sluice.share_group, integer, text[], boolean, text, sluice.claim) is
    'Take the waiting events of a key, if it is free, as far as the member handles their types.';
revoke execute on function sluice._take_key(sluice.share_group, integer, text[], boolean, text, sluice.claim) from public;
grant execute on function sluice._take_key(sluice.share_group, integer, text[], boolean, text, sluice.claim) to pgq_admin, sluice_admin;
