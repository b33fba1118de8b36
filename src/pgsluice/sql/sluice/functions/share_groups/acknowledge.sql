/*
 * Does not take the group's lock: this is part of the caller's transaction, which may be long and commits its rows and the acknowledgement atomically. It locks the
 * row of the claim: concurrent acknowledgements are serialized, and the lease does not expire meanwhile. The number of an outcome is a unique key: a transaction
 * with an old snapshot, which does not see the previous outcome, gets a serialization error.
 */
create or replace function sluice.acknowledge(
    log_name text, group_name text, claim_id bigint, outcome text default 'accept', ev_ids bigint[] default null,
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
    v_events integer;
begin
    -- Fast path: nearly always a whole claim is accepted that has no earlier outcomes, or only renewals, such as the receipt of a worker. That is a lock and
    -- a row, in one statement. On a conflict there is an earlier outcome that the statement does not see.
    --
    -- Its plan may be made while the table is empty, as after a switch of the ledgers, and used when it is full. So it must find the claim by group and number:
    -- as a join it would search the whole index for the number, and with IS NOT NULL the index on leases.
    if outcome = 'accept' and ev_ids is null and delay is null then
        insert into sluice.outcome_0 as o (group_id, claim_id, outcome_no, outcome, events, error, is_backlog)
        select c.group_id, c.claim_id, before.renewals + 1, 'accept', c.events, acknowledge.error, g.key is not null
        from sluice.share_group as g
        cross join lateral (
            select c.group_id, c.claim_id, c.events + c.redeliveries as events
            from sluice.claim_0 as c
            where c.group_id = g.group_id
              and c.claim_id = acknowledge.claim_id
              and coalesce(c.lease_until, '-infinity') > '-infinity'
            for no key update
        ) as c
        cross join lateral (
            select count(*)::integer as renewals
            from sluice.outcome_0 as o
            where o.group_id = g.group_id and o.claim_id = acknowledge.claim_id
            having coalesce(bool_and(o.outcome = 'renew'), true)
        ) as before
        where g.log_name = acknowledge.log_name and g.group_name = acknowledge.group_name
        on conflict do nothing
        returning o.events into v_events;
        if found then
            return v_events;
        end if;
        insert into sluice.outcome_1 as o (group_id, claim_id, outcome_no, outcome, events, error, is_backlog)
        select c.group_id, c.claim_id, before.renewals + 1, 'accept', c.events, acknowledge.error, g.key is not null
        from sluice.share_group as g
        cross join lateral (
            select c.group_id, c.claim_id, c.events + c.redeliveries as events
            from sluice.claim_1 as c
            where c.group_id = g.group_id
              and c.claim_id = acknowledge.claim_id
              and coalesce(c.lease_until, '-infinity') > '-infinity'
            for no key update
        ) as c
        cross join lateral (
            select count(*)::integer as renewals
            from sluice.outcome_1 as o
            where o.group_id = g.group_id and o.claim_id = acknowledge.claim_id
            having coalesce(bool_and(o.outcome = 'renew'), true)
        ) as before
        where g.log_name = acknowledge.log_name and g.group_name = acknowledge.group_name
        on conflict do nothing
        returning o.events into v_events;
        if found then
            return v_events;
        end if;
    end if;

    if outcome is null or outcome not in ('accept', 'release', 'retry', 'reject') then
        raise exception using
            errcode = '22023',
            message = format('invalid outcome %L', outcome),
            hint = 'use accept, release, retry or reject';
    elsif delay not between '0' and '100 years' or delay is not null and outcome not in ('retry', 'release') then
        raise exception using
            errcode = '22023',
            message = format('invalid delay of %s with outcome %L', delay, outcome),
            hint = 'pass a delay of 0 to 100 years with retry or release, and none with other outcomes';
    end if;
    return sluice._settle(
        sluice._require_group(log_name, group_name), claim_id, outcome, ev_ids, delay, error, reason, null::jsonb
    );
end;
$$;

comment on function sluice.acknowledge(text, text, bigint, text, bigint[], interval, text, text) is
    'Settle a claim, or some of its events, with an outcome: accept, release, retry or reject. Returns the number of events that this call settled. Idempotent: events that already have this outcome are not counted.';
revoke execute on function sluice.acknowledge(text, text, bigint, text, bigint[], interval, text, text) from public;
grant execute on function sluice.acknowledge(text, text, bigint, text, bigint[], interval, text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
