-- The caller has checked the outcome and the delay.
--
-- In a group that keeps the order while an event waits, a consumer cannot continue with the later events of its key. So the claim's other events of
-- that key are released with the event that is retried or released, and redelivered behind it. This delivery is not counted.
create or replace function sluice._settle(
    i_group sluice.share_group, i_claim_id bigint, i_outcome text, i_ev_ids bigint[], i_delay interval, i_error text, i_reason text,
    i_failure jsonb
)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_claim sluice.claim := sluice._hold_claim(i_group, i_claim_id);
    v_outcome sluice.outcome;
    v_before record;
    v_dead bigint[];
    v_again bigint[];
    v_events integer;
    v_settled bigint[];
    v_behind bigint[];
begin
    -- A separate statement after the lock.
    select coalesce(max(o.outcome_no), 0) as outcome_no, coalesce(sum(o.events), 0) as events
    into v_before
    from sluice.outcome as o
    where o.group_id = i_group.group_id and o.claim_id = i_claim_id;
    v_outcome.group_id := i_group.group_id;
    v_outcome.claim_id := i_claim_id;
    v_outcome.outcome_no := v_before.outcome_no + 1;
    v_outcome.outcome := i_outcome;
    v_outcome.delay := i_delay;
    v_outcome.error := i_error;
    v_outcome.is_backlog := i_outcome in ('retry', 'release') or i_group.key is not null;
    v_outcome.events := v_claim.events + v_claim.redeliveries;
    if i_ev_ids is not null or v_before.events > 0 then
        v_outcome.ev_ids := sluice._unsettled(i_group, v_claim, i_outcome, i_ev_ids);
        v_outcome.events := cardinality(v_outcome.ev_ids);
        if v_outcome.events = 0 then
            return 0;
        end if;
    end if;

    if i_outcome = 'retry' then
        -- Events at their last attempt or delivery are dead-lettered in this transaction.
        select array_agg(e.ev_id) filter (where e.is_last), coalesce(array_agg(e.ev_id) filter (where not e.is_last), '{}')
        into v_dead, v_again
        from (
            select c.ev_id,
                sluice._is_last(c.attempts + 1, i_group.max_attempts, c.deliveries + 1, i_group.max_deliveries) as is_last
            from sluice._claimed_events(i_group, v_claim, v_outcome.ev_ids) as c
        ) as e;
        if v_dead is not null then
            perform sluice._reject(i_group, v_claim, v_outcome, v_dead, coalesce(i_reason, 'too many attempts'), i_failure);
            if v_again = '{}' then
                return cardinality(v_dead);
            end if;
            v_outcome.outcome_no := v_outcome.outcome_no + 1;
            v_outcome.ev_ids := v_again;
            v_outcome.events := cardinality(v_again);
        end if;
    elsif i_outcome = 'reject' then
        perform sluice._reject(i_group, v_claim, v_outcome, v_outcome.ev_ids, coalesce(i_reason, 'rejected'), i_failure);
        return v_outcome.events;
    end if;
    perform sluice._write_outcome(v_outcome);
    v_events := coalesce(cardinality(v_dead), 0) + v_outcome.events;
    if i_outcome not in ('retry', 'release') or i_group.key is null or i_group.when_waiting = 'skip' or v_outcome.ev_ids is null then
        return v_events;
    end if;

    select array_agg(s.ev_id)
    into v_settled
    from sluice.outcome as o
    cross join unnest(o.ev_ids) as s (ev_id)
    where o.group_id = i_group.group_id and o.claim_id = i_claim_id;
    select array_agg(e.ev_id order by e.place)
    into v_behind
    from sluice.key_event as e
    join (
        select f.key, min(f.place) as place
        from sluice.key_event as f
        where f.group_id = i_group.group_id and f.claim_id = i_claim_id and f.ev_id = any (v_outcome.ev_ids)
        group by f.key
    ) as first on first.key = e.key and first.place < e.place
    where e.group_id = i_group.group_id
      and e.claim_id = i_claim_id
      and e.ev_id <> all (v_settled);
    if v_behind is null then
        return v_events;
    end if;
    v_outcome.outcome_no := v_outcome.outcome_no + 1;
    v_outcome.outcome := 'release';
    v_outcome.ev_ids := v_behind;
    v_outcome.events := cardinality(v_behind);
    v_outcome.delay := null;
    v_outcome.error := null;
    perform sluice._write_outcome(v_outcome);
    return v_events + v_outcome.events;
end;
$$;

comment on function sluice._settle(sluice.share_group, bigint, text, bigint[], interval, text, text, jsonb) is
    'Settle a claim, or some of its events, and dead-letter those at their last attempt, with error_type, trace and worker of the failure; returns the number of events settled.';
revoke execute on function sluice._settle(sluice.share_group, bigint, text, bigint[], interval, text, text, jsonb) from public;
grant execute on function sluice._settle(sluice.share_group, bigint, text, bigint[], interval, text, text, jsonb) to pgq_admin, sluice_admin;
