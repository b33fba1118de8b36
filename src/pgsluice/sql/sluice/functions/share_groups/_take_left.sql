-- The lanes of the member's types, the one that waits longest first.
create or replace function sluice._take_left(
    i_group sluice.share_group, i_qty integer, i_types text[], i_is_except boolean, inout claim sluice.claim, out is_news boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_rows_max constant integer := 1000; -- per lane and call; the next call continues
    v_lane record;
    v_row sluice.waiting_event;
    v_event sluice.redelivery;
    v_taken sluice.redelivery[];
    v_upto bigint;
    v_events bigint;
    v_keys bigint;
begin
    is_news := false;
    for v_lane in
        select l.lane, (l.state ->> 'upto')::bigint as upto, (l.state ->> 'events')::bigint as events, (l.state ->> 'keys')::bigint as keys
        from jsonb_each(claim.left_lanes) as l (lane, state)
        where (l.lane = any (i_types)) <> i_is_except
        order by l.state ->> 'since', l.lane
    loop
        exit when claim.redeliveries >= i_qty;
        v_upto := v_lane.upto;
        v_events := 0;
        v_keys := 0;
        v_taken := '{}';
        for v_row in
            select e.*
            from sluice.waiting_event as e
            where e.group_id = i_group.group_id
              and e.is_left
              and e.lane = v_lane.lane
              and not e.is_returned
              and e.waiting_id > v_lane.upto
            order by e.waiting_id
            limit least(v_rows_max, i_qty - claim.redeliveries)
        loop
            exit when claim.redeliveries >= i_qty;
            v_upto := v_row.waiting_id;
            if v_row.ev_id is null then
                v_keys := v_keys + 1;
                claim := sluice._take_key(i_group, i_qty, i_types, i_is_except, v_row.key, claim);
                continue;
            end if;
            v_events := v_events + 1;
            v_event.group_id := v_row.group_id;
            v_event.place := coalesce(v_row.place, v_row.waiting_id);
            v_event.ev_id := v_row.ev_id;
            v_event.ev_time := v_row.ev_time;
            v_event.ev_txid := v_row.ev_txid;
            v_event.ev_type := v_row.ev_type;
            v_event.ev_data := v_row.ev_data;
            v_event.ev_extra1 := v_row.ev_extra1;
            v_event.ev_extra2 := v_row.ev_extra2;
            v_event.ev_extra3 := v_row.ev_extra3;
            v_event.ev_extra4 := v_row.ev_extra4;
            v_event.redriven := v_row.redriven;
            v_event.attempts := v_row.attempts;
            v_event.deliveries := v_row.deliveries;
            v_event.error := v_row.error;
            v_taken := v_taken || v_event;
            claim.redeliveries := claim.redeliveries + 1;
        end loop;
        perform sluice._write_key_events(claim.claim_id, v_taken);
        is_news := is_news or v_events + v_keys > 0;
        -- Taking a key may have left it to a lane again.
        v_events := (claim.left_lanes -> v_lane.lane ->> 'events')::bigint - v_events;
        v_keys := (claim.left_lanes -> v_lane.lane ->> 'keys')::bigint - v_keys;
        claim.left_lanes := case
            when v_events + v_keys > 0 then claim.left_lanes || jsonb_build_object(
                v_lane.lane,
                (claim.left_lanes -> v_lane.lane) || jsonb_build_object('upto', v_upto, 'events', v_events, 'keys', v_keys)
            )
            else nullif(claim.left_lanes - v_lane.lane, '{}')
        end;
    end loop;
end;
$$;

comment on function sluice._take_left(sluice.share_group, integer, text[], boolean, sluice.claim) is
    'Take the events that earlier claims of a share group left to members that handle these types.';
revoke execute on function sluice._take_left(sluice.share_group, integer, text[], boolean, sluice.claim) from public;
grant execute on function sluice._take_left(sluice.share_group, integer, text[], boolean, sluice.claim) to pgq_admin, sluice_admin;
