/*
 * Not under the lock of the group: this is part of the caller's transaction, which may be long, and whose rows and acknowledgement become true together. The lock is
 * on the row of the claim: two that acknowledge it take turns, and its lease does not lapse meanwhile. The number of the outcome is a key: a transaction with an
 * old snapshot, which does not see the outcome before its own, is refused.
 */
create or replace function sluice.acknowledge(
    queue_name text, group_name text, claim_id bigint, outcome text default 'accept', ev_ids bigint[] default null,
    delay interval default null, error text default null, reason text default null
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_group sluice.share_group := sluice._require_group(queue_name, group_name);
    v_claim sluice.claim;
    v_outcome sluice.outcome;
    v_before record;
    v_dead bigint[];
    v_again bigint[];
begin
    if outcome is null or outcome not in ('accept', 'release', 'retry', 'reject') then
        raise exception using
            errcode = '22023',
            message = format('there is no outcome %L', outcome),
            hint = 'use accept, release, retry or reject';
    elsif delay < '0' or delay is not null and outcome not in ('retry', 'release') then
        raise exception using
            errcode = '22023',
            message = format('a delay of %s with outcome %s', delay, outcome),
            hint = 'give retry and release a delay of 0 or more, the others none';
    end if;
    v_claim := sluice._hold_claim(v_group, claim_id);

    -- A statement after the lock.
    select coalesce(max(o.outcome_no), 0) as outcome_no, coalesce(sum(o.events), 0) as events
    into v_before
    from sluice.outcome as o
    where o.group_id = v_group.group_id and o.claim_id = acknowledge.claim_id;
    v_outcome.group_id := v_group.group_id;
    v_outcome.claim_id := claim_id;
    v_outcome.outcome_no := v_before.outcome_no + 1;
    v_outcome.outcome := outcome;
    v_outcome.delay := delay;
    v_outcome.error := error;
    v_outcome.is_mail := outcome in ('retry', 'release') or v_group.key is not null;
    v_outcome.events := v_claim.events + v_claim.redeliveries;
    if ev_ids is not null or v_before.events > 0 then
        v_outcome.ev_ids := sluice._unsettled(v_group, v_claim, outcome, ev_ids);
        v_outcome.events := cardinality(v_outcome.ev_ids);
        if v_outcome.events = 0 then
            return 0;
        end if;
    end if;

    if outcome = 'retry' then
        -- Those for which this was the last attempt are dead, in this transaction.
        select array_agg(e.ev_id) filter (where e.is_last), coalesce(array_agg(e.ev_id) filter (where not e.is_last), '{}')
        into v_dead, v_again
        from (
            select c.ev_id,
                c.attempts + 1 >= v_group.max_attempts or c.deliveries + 1 >= v_group.max_deliveries as is_last
            from sluice._claimed_events(v_group, v_claim, v_outcome.ev_ids) as c
        ) as e;
        if v_dead is null then
            perform sluice._write_outcome(v_outcome);
        else
            perform sluice._reject(v_group, v_claim, v_outcome, v_dead, coalesce(reason, 'too many attempts'));
            if v_again <> '{}' then
                v_outcome.outcome_no := v_outcome.outcome_no + 1;
                v_outcome.ev_ids := v_again;
                v_outcome.events := cardinality(v_again);
                perform sluice._write_outcome(v_outcome);
            end if;
            return cardinality(v_dead) + cardinality(v_again);
        end if;
    elsif outcome = 'reject' then
        perform sluice._reject(v_group, v_claim, v_outcome, v_outcome.ev_ids, coalesce(reason, 'rejected'));
    else
        perform sluice._write_outcome(v_outcome);
    end if;
    return v_outcome.events;
end;
$$;

comment on function sluice.acknowledge(text, text, bigint, text, bigint[], interval, text, text) is
    'Say what became of a claim, or of those of its events: accept, release, retry or reject. Returns how many this settled. Fewer: the others were, the same way, and what was done for them is done already.';
revoke execute on function sluice.acknowledge(text, text, bigint, text, bigint[], interval, text, text) from public;
grant execute on function sluice.acknowledge(text, text, bigint, text, bigint[], interval, text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
