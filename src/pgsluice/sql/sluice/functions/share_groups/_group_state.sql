-- lag_events counts event numbers, including those of rolled back events: an exact count would read all events. lag_s is the age of the oldest unclaimed event.
create or replace function sluice._group_state(
    i_group sluice.share_group,
    out lag_events bigint, out lag_s double precision, out leased bigint, out retrying bigint, out dead bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_state record;
    v_claim sluice.claim;
    v_oldest timestamptz;
begin
    -- Prevents emptying the ledgers: otherwise the next statement's snapshot could see neither the old rows nor their copy.
    lock table sluice.claim, sluice.outcome, sluice.redelivery, sluice.key_turn, sluice.waiting_event in access share mode;
    -- One statement, one snapshot: between two, a claim could take a redelivery, which would be counted in neither.
    select n.last_claim, c.leased, r.events + m.events + t.returned as retrying, t.waiting + l.events as waiting, least(t.oldest, l.oldest) as oldest, d.dead
    into v_state
    from (
        select c as last_claim from sluice.claim as c where c.group_id = i_group.group_id order by c.claim_id desc limit 1
    ) as n
    cross join lateral (
        select coalesce(sum(c.events + c.redeliveries - o.settled), 0) as leased
        from sluice.claim as c
        cross join lateral (
            select coalesce(sum(o.events), 0) as settled
            from sluice.outcome as o
            where o.group_id = c.group_id and o.claim_id = c.claim_id
        ) as o
        where c.group_id = i_group.group_id and c.claim_id >= (n.last_claim).open_claim
    ) as c
    cross join lateral (
        select count(*) as events
        from sluice.redelivery as r
        where r.group_id = i_group.group_id
          and (r.due_at, r.redelivery_id) > ((n.last_claim).upto_due, (n.last_claim).upto_redelivery)
          and r.ev_id is not null
    ) as r
    -- Plus the redeliveries in the acknowledgement backlog.
    cross join lateral (
        select coalesce(sum(o.events), 0) as events
        from sluice.outcome as o
        where o.group_id = i_group.group_id
          and o.is_backlog
          and o.outcome in ('retry', 'release')
          and not pg_visible_in_snapshot(o.outcome_txid, (n.last_claim).backlog_snapshot)
    ) as m
    -- Read from the log but not claimed: events that wait for the turn of their key.
    cross join lateral (
        select coalesce(sum(t.waiting), 0) as waiting, coalesce(sum(cardinality(t.returned)), 0) as returned, min(e.ev_time) as oldest
        from sluice._waiting_turns(i_group.group_id) as t
        left join lateral (
            select e.ev_time
            from sluice.waiting_event as e
            where e.group_id = i_group.group_id
              and not e.is_left
              and e.lane = t.key
              and not e.is_returned
              and e.waiting_id > t.upto_waiting
            order by e.waiting_id
            limit 1
        ) as e on t.waiting > 0
        where i_group.key is not null
    ) as t
    -- And those that were left to members that handle their types.
    cross join lateral (
        select coalesce(sum((s.state ->> 'events')::bigint), 0) as events, min(e.ev_time) as oldest
        from jsonb_each((n.last_claim).left_lanes) as s (lane, state)
        left join lateral (
            select e.ev_time
            from sluice.waiting_event as e
            where e.group_id = i_group.group_id
              and e.is_left
              and e.lane = s.lane
              and not e.is_returned
              and e.waiting_id > (s.state ->> 'upto')::bigint
            order by e.waiting_id
            limit 1
        ) as e on true
    ) as l
    cross join lateral (
        select count(*) as dead
        from (
            select
            from sluice.dead_letter_event as d
            where d.queue_name = i_group.log_name and d.consumer_name = i_group.group_name
            limit 10000
        ) as counted
    ) as d;
    leased := v_state.leased;
    retrying := v_state.retrying;
    dead := v_state.dead;

    v_claim := v_state.last_claim;
    lag_events := greatest(0, pgq._event_seq(i_group.queue_id) - case
        when v_claim.upto_ev_id = 9223372036854775807 then v_claim.upto_seq
        else greatest(v_claim.upto_ev_id, v_claim.after_seq)
    end);
    -- The rest of the current window, in the order of claims; then the events after it.
    execute format('select e.ev_time from unnest(pgq.%I($1, $2, $3, $4, $5, $6, 1)) as e limit 1', format('event_%s_next', i_group.queue_id))
    using v_claim.after_snapshot, v_claim.after_seq, v_claim.upto_snapshot, v_claim.upto_seq, v_claim.upto_ev_id, i_group.owner
    into v_oldest;
    if v_oldest is null then
        v_oldest := (pgq._oldest_events(i_group.queue_id, array[v_claim.upto_snapshot], array[i_group.owner]))[1];
    end if;
    -- An event that was committed late has a lower number than the cursor.
    lag_events := case when v_oldest is null then 0 else greatest(1, lag_events) end;
    v_oldest := least(v_oldest, v_state.oldest);
    lag_s := case when isfinite(v_oldest) then greatest(0, extract(epoch from clock_timestamp() - v_oldest)) else 0 end;
    lag_events := lag_events + v_state.waiting;
end;
$$;

comment on function sluice._group_state(sluice.share_group) is
    'Return the lag of a share group in events and seconds, and its numbers of leased, retrying and dead-lettered events, the last counted up to 10,000.';
revoke execute on function sluice._group_state(sluice.share_group) from public;
grant execute on function sluice._group_state(sluice.share_group) to pgq_admin, sluice_admin;
