create or replace function sluice.renew(log_name text, group_name text, claim_id bigint, lease interval default null)
returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_group sluice.share_group;
    v_claim sluice.claim;
    v_outcome sluice.outcome;
    v_events bigint;
    v_now constant timestamptz := clock_timestamp();
    v_left interval;
    v_lease_until timestamptz;
begin
    if lease <= '0' or lease > '100 years' then
        raise exception using
            errcode = '22023',
            message = format('a lease of %s', lease),
            hint = 'renew for more than 0 and up to 100 years, or acknowledge with release';
    end if;
    -- Fast path: nearly always a claim without earlier outcomes is renewed, as by the receipt of a worker. That is a lock and a row, in one statement, as in
    -- sluice.acknowledge. The rest of a lease is at most the whole lease: the server's clock may have been set back since.
    insert into sluice.outcome_0 as o (group_id, claim_id, outcome_no, outcome, events, delay, is_backlog)
    select c.group_id, c.claim_id, 1, 'renew', 0, greatest(coalesce(renew.lease, g.lease), c.time_left), false
    from sluice.share_group as g
    cross join lateral (
        select c.group_id, c.claim_id, least(c.lease_until - c.clock_shift - v_now, c.lease_until - c.claimed_at) as time_left
        from sluice.claim_0 as c
        where c.group_id = g.group_id
          and c.claim_id = renew.claim_id
          and coalesce(c.lease_until, '-infinity') > '-infinity'
        for no key update
    ) as c
    where g.log_name = renew.log_name and g.group_name = renew.group_name
    on conflict do nothing
    returning o.outcome_at + o.delay into v_lease_until;
    if found then
        return v_lease_until;
    end if;
    insert into sluice.outcome_1 as o (group_id, claim_id, outcome_no, outcome, events, delay, is_backlog)
    select c.group_id, c.claim_id, 1, 'renew', 0, greatest(coalesce(renew.lease, g.lease), c.time_left), false
    from sluice.share_group as g
    cross join lateral (
        select c.group_id, c.claim_id, least(c.lease_until - c.clock_shift - v_now, c.lease_until - c.claimed_at) as time_left
        from sluice.claim_1 as c
        where c.group_id = g.group_id
          and c.claim_id = renew.claim_id
          and coalesce(c.lease_until, '-infinity') > '-infinity'
        for no key update
    ) as c
    where g.log_name = renew.log_name and g.group_name = renew.group_name
    on conflict do nothing
    returning o.outcome_at + o.delay into v_lease_until;
    if found then
        return v_lease_until;
    end if;
    v_group := sluice._require_group(log_name, group_name);
    v_claim := sluice._hold_claim(v_group, claim_id);
    -- A separate statement after the lock.
    select coalesce(max(o.outcome_no), 0) + 1, coalesce(sum(o.events), 0), greatest(
            least(v_claim.lease_until - v_claim.clock_shift - v_now, v_claim.lease_until - v_claim.claimed_at),
            max(least(o.outcome_at + o.delay - v_now, o.delay)) filter (where o.outcome = 'renew')
        )
    into v_outcome.outcome_no, v_events, v_left
    from sluice.outcome as o
    where o.group_id = v_group.group_id and o.claim_id = renew.claim_id;
    if v_events >= v_claim.events + v_claim.redeliveries then
        perform sluice._refuse_claim(v_group, claim_id, null::bigint[]);
    end if;
    v_outcome.group_id := v_group.group_id;
    v_outcome.claim_id := claim_id;
    v_outcome.outcome := 'renew';
    v_outcome.events := 0;
    -- Never shortens the lease: its current end is already scheduled for a check.
    v_outcome.delay := greatest(coalesce(lease, v_group.lease), v_left);
    v_outcome.is_backlog := false;
    return sluice._write_outcome(v_outcome) + v_outcome.delay;
end;
$$;

comment on function sluice.renew(text, text, bigint, interval) is
    'Renew the lease of a claim: extend it to the given time from now; a longer lease is not shortened. Returns its new end. If the renewed lease expires, that counts as an attempt.';
revoke execute on function sluice.renew(text, text, bigint, interval) from public;
grant execute on function sluice.renew(text, text, bigint, interval) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
