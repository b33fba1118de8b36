-- The row of the claim is locked by whoever acknowledges, and here: one of the two comes first, and the other sees what it did.
--
-- A renewal is stamped by the server's clock, which may have been set back since: then it holds the claim from now on, once. i_renewal is the outcome_no of
-- the renewal whose end was scheduled as this look; that renewal has expired.
create or replace function sluice._expire_lease(i_group sluice.share_group, i_now sluice.claim, i_claim_id bigint, i_renewal integer)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    -- A consumer is acknowledging at this moment; its lease has ended, but it is there.
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
            return 0; -- settled long ago, and gone
        end if;
        v_redelivery.due_at := i_now.claimed_at + v_grace;
        v_redelivery.attempts := i_renewal;
        perform sluice._write_redelivery(i_now, v_redelivery);
        return 0;
    end if;

    -- A statement after the lock: what was acknowledged before it is seen.
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
    v_outcome.is_mail := false;
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
    'Expire the lease of a claim unless the claim is settled, renewed or being acknowledged; return how many events are redelivered or dead-lettered.';
revoke execute on function sluice._expire_lease(sluice.share_group, sluice.claim, bigint, integer) from public;
grant execute on function sluice._expire_lease(sluice.share_group, sluice.claim, bigint, integer) to pgq_admin, sluice_admin;
