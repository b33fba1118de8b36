/*
 * Events that another member of the group handles are moved to a lane per type. So a claim visits them once, the cursors of the log and of the
 * redeliveries move on, and a member finds the events of its types in their order. A row without an event is a key whose next event has that type.
 *
 * A lane has a cursor in the claim, and is a part of a ledger: no row is updated or deleted.
 */
create or replace function sluice._leave(i_events sluice.redelivery[], inout claim sluice.claim)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_rows sluice.waiting_event[];
    v_lanes jsonb;
begin
    if i_events is null then
        return;
    end if;
    v_rows := array(
        select row(
            claim.group_id, true,
            coalesce(sluice._event_key('ev_type'::text, e.ev_type, null::text, null::text, null::text, null::text, null::text), ''),
            false, nextval('sluice.key_place_seq'), e.place, e.key, e.ev_id, e.ev_time, e.ev_txid, e.ev_type, e.ev_data,
            e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, e.redriven, e.attempts, e.deliveries, e.error
        )::sluice.waiting_event
        from unnest(i_events) as e
    );
    if (select l.number from sluice.ledger as l) = 0 then
        insert into sluice.waiting_event_0 select r.* from unnest(v_rows) as r;
    else
        insert into sluice.waiting_event_1 select r.* from unnest(v_rows) as r;
    end if;
    select jsonb_object_agg(
        n.lane,
        jsonb_build_object(
            'upto', coalesce((claim.left_lanes -> n.lane ->> 'upto')::bigint, n.first_id - 1),
            'events', coalesce((claim.left_lanes -> n.lane ->> 'events')::bigint, 0) + n.events,
            'keys', coalesce((claim.left_lanes -> n.lane ->> 'keys')::bigint, 0) + n.keys,
            'since', coalesce(claim.left_lanes -> n.lane -> 'since', to_jsonb(clock_timestamp()))
        )
    )
    into v_lanes
    from (
        select r.lane, min(r.waiting_id) as first_id, count(r.ev_id) as events, count(*) - count(r.ev_id) as keys
        from unnest(v_rows) as r
        group by r.lane
    ) as n;
    claim.left_lanes := coalesce(claim.left_lanes, '{}') || v_lanes;
end;
$$;

comment on function sluice._leave(sluice.redelivery[], sluice.claim) is
    'Leave events, or keys, to the members of a share group that handle their types. The caller holds the lock of the group.';
revoke execute on function sluice._leave(sluice.redelivery[], sluice.claim) from public;
grant execute on function sluice._leave(sluice.redelivery[], sluice.claim) to pgq_admin, sluice_admin;
