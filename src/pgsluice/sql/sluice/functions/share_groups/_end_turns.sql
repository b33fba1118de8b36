/*
 * The turn of a key ends when its claim has no unsettled event of the key. An outcome counts only after the group has applied it: otherwise a later event
 * could be claimed before one that is redelivered.
 *
 * This function does not search for waiting events. It adds the key to the redeliveries, due when its next turn may start.
 */
create or replace function sluice._end_turns(
    i_group sluice.share_group, i_now sluice.claim, i_claim_id bigint, i_ev_ids bigint[], i_outcome_no integer
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_is_all boolean;
    v_settled bigint[];
    v_turns sluice.key_turn[];
    v_look sluice.redelivery;
begin
    select bool_or(o.ev_ids is null), array_agg(s.ev_id)
    into v_is_all, v_settled
    from sluice.outcome as o
    left join unnest(o.ev_ids) as s (ev_id) on true
    where o.group_id = i_group.group_id
      and o.claim_id = i_claim_id
      and o.outcome <> 'renew'
      and (not o.is_backlog or o.outcome_no <= i_outcome_no or pg_visible_in_snapshot(o.outcome_txid, i_now.backlog_snapshot));

    select array_agg(t.turn)
    into v_turns
    from (
        select e.key
        from sluice.key_event as e
        where e.group_id = i_group.group_id and e.claim_id = i_claim_id and e.key is not null
        group by e.key
        having (i_ev_ids is null or bool_or(e.ev_id = any (i_ev_ids))) and (v_is_all or bool_and(e.ev_id = any (v_settled)))
    ) as k
    cross join lateral (
        select n as turn
        from sluice.key_turn as n
        where n.group_id = i_group.group_id and n.key = k.key
        order by n.turn_id desc
        limit 1
    ) as t
    where (t.turn).claim_id = i_claim_id;
    if v_turns is null then
        return;
    end if;
    select array_agg(row(t.group_id, t.key, t.turn_id, null, clock_timestamp(), t.due_at, t.returned, t.upto_waiting, t.waiting)::sluice.key_turn)
    into v_turns
    from unnest(v_turns) as t;
    perform sluice._write_turns(v_turns);

    for v_look.key, v_look.due_at in
        select t.key, greatest(t.due_at, i_now.claimed_at)
        from unnest(v_turns) as t
        where t.waiting > 0 or t.returned <> '{}'
    loop
        perform sluice._write_redelivery(i_now, v_look);
    end loop;
end;
$$;

comment on function sluice._end_turns(sluice.share_group, sluice.claim, bigint, bigint[], integer) is
    'End the turns of keys whose events in a claim, all or the given ones, are settled by outcomes that the group has read or up to this outcome.';
revoke execute on function sluice._end_turns(sluice.share_group, sluice.claim, bigint, bigint[], integer) from public;
grant execute on function sluice._end_turns(sluice.share_group, sluice.claim, bigint, bigint[], integer) to pgq_admin, sluice_admin;
