-- Acknowledging locks the row of the claim too, so the two are serialized and the second sees the outcome of the first.
--
-- A renewal has the time of the server's clock, which may have been set back since: then the renewed lease is counted from now, once. i_renewal is the
-- outcome_no of the renewal whose expiry was scheduled as this check; that renewal has expired.
create or replace function sluice._expire_lease(i_group sluice.share_group, i_now sluice.claim, i_claim_id bigint, i_renewal integer)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    -- For a claim that a consumer is acknowledging: its lease has expired, but it is active.
    v_grace constant interval := '1 second';
    v_claim sluice.claim;
    v_outcome sluice.outcome;
    v_redelivery sluice.redelivery;
    v_renewal integer;
    v_renewed_at timestamptz;
    v_renewed_for interval;
    v_settled bigint[];
    v_count bigint;
begin
    v_redelivery.look_at := i_claim_id;
    select c.*
    into v_claim
    from sluice.claim as c
    where c.group_id = i_group.group_id and c.claim_id = i_claim_id
    for no key update skip locked;
    if not found then
        perform from sluice.claim as c where c.group_id = i_group.group_id and c.claim_id = i_claim_id;
        if not found then
            return 0; -- settled, and its row deleted
        end if;
        v_redelivery.due_at := i_now.claimed_at + v_grace;
        v_redelivery.attempts := i_renewal;
        perform sluice._write_redelivery(i_now, v_redelivery);
        return 0;
    end if;

    -- A separate statement after the lock, so that it sees earlier acknowledgements.
    select count(*), sum(o.events), max(o.outcome_no) filter (where o.outcome = 'renew'),
        (array_agg(o.outcome_at order by o.outcome_no desc) filter (where o.outcome = 'renew'))[1],
        (array_agg(o.delay order by o.outcome_no desc) filter (where o.outcome = 'renew'))[1]
    into v_outcome.outcome_no, v_count, v_renewal, v_renewed_at, v_renewed_for
    from sluice.outcome as o
    where o.group_id = i_group.group_id and o.claim_id = i_claim_id;
    if v_count >= v_claim.events + v_claim.redeliveries then
        return 0;
    end if;
    v_redelivery.due_at := v_renewed_for + least(
        v_renewed_at + i_now.clock_shift, greatest(i_now.claimed_at, clock_timestamp() + i_now.clock_shift)
    );
    if v_renewal > i_renewal and v_redelivery.due_at > i_now.claimed_at then
        v_redelivery.attempts := v_renewal;
        perform sluice._write_redelivery(i_now, v_redelivery);
        return 0;
    end if;

    v_outcome.group_id := i_group.group_id;
    v_outcome.claim_id := i_claim_id;
    v_outcome.outcome_no := v_outcome.outcome_no + 1;
    v_outcome.outcome := 'lapse';
    v_outcome.is_backlog := false;
    v_outcome.events := v_claim.events + v_claim.redeliveries - coalesce(v_count, 0);
    if v_count > 0 then
        select array_agg(s.ev_id)
        into v_settled
        from sluice.outcome as o
        cross join unnest(o.ev_ids) as s (ev_id)
        where o.group_id = i_group.group_id and o.claim_id = i_claim_id;
        v_outcome.ev_ids := array(
            select e.ev_id from sluice._claimed_events(i_group, v_claim, null::bigint[]) as e where e.ev_id <> all (v_settled)
        );
    end if;
    perform sluice._redeliver(i_group, i_now, v_outcome);
    perform sluice._write_outcome(v_outcome);
    if i_group.key is not null then
        perform sluice._end_turns(i_group, i_now, i_claim_id, v_outcome.ev_ids, 0);
    end if;
    return v_outcome.events;
end;
$$;

comment on function sluice._expire_lease(sluice.share_group, sluice.claim, bigint, integer) is
    'Expire the lease of a claim unless the claim is settled, renewed or being acknowledged; returns how many events are redelivered or dead-lettered.';
revoke execute on function sluice._expire_lease(sluice.share_group, sluice.claim, bigint, integer) from public;
grant execute on function sluice._expire_lease(sluice.share_group, sluice.claim, bigint, integer) to pgq_admin, sluice_admin;
