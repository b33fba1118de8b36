-- A claim stores ranges and not events: a part of a window, and a range of the redeliveries. Both are immutable, so the result is always the same. In a
-- group with keys, or for a member that does not handle all types, the events of a claim are not contiguous and are stored in sluice.key_event.
create or replace function sluice._claimed_events(i_group sluice.share_group, i_claim sluice.claim, i_ev_ids bigint[])
returns setof sluice.redelivery
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_columns constant text := 'select $1, null::timestamptz, null::bigint, null::bigint,
        e.ev_id, e.ev_time, e.ev_txid, e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4,
        coalesce(e.ev_retry, 0), 0, 0, null::text, null::text, null::bigint from';
begin
    if i_group.key is not null or i_claim.is_stored then
        return query
            select e.group_id, null::timestamptz, null::bigint, null::bigint, e.ev_id, e.ev_time, e.ev_txid, e.ev_type, e.ev_data,
                e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, e.redriven, e.attempts, e.deliveries, e.error, e.key, e.place
            from sluice.key_event as e
            where e.group_id = i_group.group_id
              and e.claim_id = i_claim.claim_id
              and (i_ev_ids is null or e.ev_id = any (i_ev_ids))
            order by e.place;
        return;
    end if;
    return query
        select r.*
        from sluice.redelivery as r
        where r.group_id = i_group.group_id
          and i_claim.redeliveries > 0
          and (r.due_at, r.redelivery_id) > (i_claim.from_due, i_claim.from_redelivery)
          and (r.due_at, r.redelivery_id) <= (i_claim.upto_due, i_claim.upto_redelivery)
          and r.look_at is null
          and (i_ev_ids is null or r.ev_id = any (i_ev_ids))
        order by r.due_at, r.redelivery_id;
    if i_claim.events = 0 then
        return;
    end if;
    if i_ev_ids is null then
        return query execute format('%s unnest(pgq.%I($2, $3, $4, $5, $6, $7, $8)) as e', v_columns, format('event_%s_next', i_group.queue_id))
        using i_group.group_id, i_claim.after_snapshot, i_claim.after_seq, i_claim.upto_snapshot, i_claim.upto_seq,
            i_claim.from_ev_id, i_group.owner, i_claim.events;
    else
        return query execute format('%s pgq.%I($2, $3, $4, $5, $6, $7) as e', v_columns, format('event_%s_claimed', i_group.queue_id))
        using i_group.group_id, i_claim.after_snapshot, i_claim.upto_snapshot, i_claim.from_ev_id, i_claim.upto_ev_id,
            i_group.owner, i_ev_ids;
    end if;
end;
$$;

comment on function sluice._claimed_events(sluice.share_group, sluice.claim, bigint[]) is
    'Return the events of a claim in order, all or those with the given ev_ids, with the attempts and deliveries before this claim.';
revoke execute on function sluice._claimed_events(sluice.share_group, sluice.claim, bigint[]) from public;
grant execute on function sluice._claimed_events(sluice.share_group, sluice.claim, bigint[]) to pgq_admin, sluice_admin;
