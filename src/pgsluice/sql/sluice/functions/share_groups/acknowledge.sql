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
    v_group_id integer;
    v_is_keyed boolean;
    v_events integer;
begin
    -- Nearly always all of a claim is accepted and nothing was said of it before: then this is a lock and a row. If the row is there, it is not so.
    if outcome = 'accept' and ev_ids is null and delay is null then
        select g.group_id, g.key is not null
        into v_group_id, v_is_keyed
        from sluice.share_group as g
        where g.queue_name = acknowledge.queue_name and g.group_name = acknowledge.group_name;
        select c.events + c.redeliveries
        into v_events
        from sluice.claim_0 as c
        where c.group_id = v_group_id and c.claim_id = acknowledge.claim_id and c.lease_until is not null
        for no key update;
        if found then
            insert into sluice.outcome_0 (group_id, claim_id, outcome_no, outcome, events, error, is_mail)
            values (v_group_id, claim_id, 1, outcome, v_events, error, v_is_keyed)
            on conflict do nothing;
        else
            select c.events + c.redeliveries
            into v_events
            from sluice.claim_1 as c
            where c.group_id = v_group_id and c.claim_id = acknowledge.claim_id and c.lease_until is not null
            for no key update;
            if found then
                insert into sluice.outcome_1 (group_id, claim_id, outcome_no, outcome, events, error, is_mail)
                values (v_group_id, claim_id, 1, outcome, v_events, error, v_is_keyed)
                on conflict do nothing;
            end if;
        end if;
        if found then
            return v_events;
        end if;
    end if;

    if outcome is null or outcome not in ('accept', 'release', 'retry', 'reject') then
        raise exception using
            errcode = '22023',
            message = format('there is no outcome %L', outcome),
            hint = 'use accept, release, retry or reject';
    elsif delay not between '0' and '100 years' or delay is not null and outcome not in ('retry', 'release') then
        raise exception using
            errcode = '22023',
            message = format('a delay of %s with outcome %s', delay, outcome),
            hint = 'give retry and release a delay from 0 to 100 years, the others none';
    end if;
    return sluice._settle(
        sluice._require_group(queue_name, group_name), claim_id, outcome, ev_ids, delay, error, reason
    );
end;
$$;

comment on function sluice.acknowledge(text, text, bigint, text, bigint[], interval, text, text) is
    'Say what became of a claim, or of those of its events: accept, release, retry or reject. Returns how many this settled. Fewer: the others were, the same way, and what was done for them is done already.';
revoke execute on function sluice.acknowledge(text, text, bigint, text, bigint[], interval, text, text) from public;
grant execute on function sluice.acknowledge(text, text, bigint, text, bigint[], interval, text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
