-- In a group that keeps the order while an event waits, a consumer cannot go on with the later events of its key: with the one that comes again,
-- those that the claim still holds come again after it. That they were handed out counts for nothing.
create or replace function sluice._send_back(i_group sluice.share_group, i_claim sluice.claim, i_outcome sluice.outcome)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_settled bigint[];
    v_behind bigint[];
begin
    if i_group.key is null or i_group.when_waiting = 'skip' or i_outcome.ev_ids is null then
        return 0;
    end if;
    select array_agg(s.ev_id)
    into v_settled
    from sluice.outcome as o
    cross join unnest(o.ev_ids) as s (ev_id)
    where o.group_id = i_group.group_id and o.claim_id = i_claim.claim_id;
    select array_agg(e.ev_id order by e.place)
    into v_behind
    from sluice.key_event as e
    join (
        select f.key, min(f.place) as place
        from sluice.key_event as f
        where f.group_id = i_group.group_id and f.claim_id = i_claim.claim_id and f.ev_id = any (i_outcome.ev_ids)
        group by f.key
    ) as first on first.key = e.key and first.place < e.place
    where e.group_id = i_group.group_id
      and e.claim_id = i_claim.claim_id
      and e.ev_id <> all (v_settled);
    if v_behind is null then
        return 0;
    end if;
    i_outcome.outcome_no := i_outcome.outcome_no + 1;
    i_outcome.outcome := 'release';
    i_outcome.ev_ids := v_behind;
    i_outcome.events := cardinality(v_behind);
    i_outcome.delay := null;
    i_outcome.error := null;
    perform sluice._write_outcome(i_outcome);
    return i_outcome.events;
end;
$$;

comment on function sluice._send_back(sluice.share_group, sluice.claim, sluice.outcome) is
    'Release what a claim still holds of the keys of events that come again, behind these; returns how many.';
revoke execute on function sluice._send_back(sluice.share_group, sluice.claim, sluice.outcome) from public;
grant execute on function sluice._send_back(sluice.share_group, sluice.claim, sluice.outcome) to pgq_admin, sluice_admin;
