-- For a free key that is due, redeliveries come first, then waiting events; both are found by number, whatever the backlog
-- before them. The events of a parked key are parked.
create or replace function sluice._take_keyed_redeliveries(
    i_group sluice.share_group, i_qty integer, inout claim sluice.claim, out is_news boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_looks_max constant integer := 1000; -- per call; the next one continues
    v_parked_max constant integer := 1000; -- per step; the next one continues
    v_next sluice.redelivery;
    v_turn sluice.key_turn;
    v_is_parked boolean;
    v_qty integer;
    v_events sluice.redelivery[];
    v_rest sluice.redelivery;
    v_returned integer;
begin
    is_news := false;
    for v_look in 1 .. v_looks_max
    loop
        exit when claim.redeliveries >= i_qty;
        -- One at a time, because each may add others that are due now.
        select r.*
        into v_next
        from sluice.redelivery as r
        where r.group_id = i_group.group_id
          and (r.due_at, r.redelivery_id) > (claim.upto_due, claim.upto_redelivery)
          and r.due_at <= claim.claimed_at
        order by r.due_at, r.redelivery_id
        limit 1;
        exit when not found;
        is_news := true;
        claim.upto_due := v_next.due_at;
        claim.upto_redelivery := v_next.redelivery_id;
        if v_next.look_at is not null then
            perform sluice._expire_lease(i_group, claim, v_next.look_at, coalesce(v_next.attempts, 0));
            continue;
        elsif v_next.ev_id is not null and v_next.key is null then
            perform sluice._write_key_events(claim.claim_id, array[v_next]);
            claim.redeliveries := claim.redeliveries + 1;
            continue;
        elsif v_next.ev_id is not null then
            v_turn := sluice._last_turn(i_group.group_id, v_next.key);
            perform sluice._write_returned(v_turn, array[v_next], '-infinity'::timestamptz);
            -- If others wait already, the time to check the key is stored.
            continue when v_turn.waiting > 0 or v_turn.returned <> '{}';
        end if;

        v_turn := sluice._last_turn(i_group.group_id, v_next.key);
        continue when v_turn.claim_id is not null or v_turn.due_at > claim.claimed_at; -- the time of the next check is stored
        v_is_parked := sluice._parked_keys(i_group, array[v_next.key]) <> '{}';
        v_qty := case when v_is_parked then v_parked_max else i_qty - claim.redeliveries end;
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
            where r.group_id = i_group.group_id and r.key = v_next.key and r.is_returned and r.waiting_id = any (v_turn.returned[1:v_qty])
            union all
            (
                select q.*
                from sluice.key_waiting as q
                where q.group_id = i_group.group_id and q.key = v_next.key and not q.is_returned and q.waiting_id > v_turn.upto_waiting
                order by q.waiting_id
                limit greatest(0, v_qty - cardinality(v_turn.returned))
            )
        ) as w;
        continue when v_events is null;

        v_returned := cardinality(v_turn.returned[1:v_qty]);
        v_turn.returned := v_turn.returned[v_qty + 1:];
        if cardinality(v_events) > v_returned then
            v_turn.waiting := v_turn.waiting - (cardinality(v_events) - v_returned);
            v_turn.upto_waiting := (v_events[cardinality(v_events)]).redelivery_id;
        end if;
        if v_is_parked then
            perform sluice._park_events(i_group, claim.claim_id, v_events);
            perform sluice._write_turns(array[v_turn]);
            if v_turn.waiting > 0 or v_turn.returned <> '{}' then
                v_rest.key := v_next.key;
                v_rest.due_at := claim.claimed_at;
                perform sluice._write_redelivery(claim, v_rest);
            end if;
            continue;
        end if;
        v_turn.claim_id := claim.claim_id;
        v_turn.since := clock_timestamp();
        v_turn.due_at := '-infinity';
        perform sluice._write_turns(array[v_turn]);
        perform sluice._write_key_events(claim.claim_id, v_events);
        claim.redeliveries := claim.redeliveries + cardinality(v_events);
    end loop;
end;
$$;

comment on function sluice._take_keyed_redeliveries(sluice.share_group, integer, sluice.claim) is
    'Take the due redeliveries of a group with keys, and the waiting events of keys that are free again.';
revoke execute on function sluice._take_keyed_redeliveries(sluice.share_group, integer, sluice.claim) from public;
grant execute on function sluice._take_keyed_redeliveries(sluice.share_group, integer, sluice.claim) to pgq_admin, sluice_admin;
