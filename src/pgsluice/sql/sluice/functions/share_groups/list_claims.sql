-- Volatile: a STABLE function uses the snapshot of the caller's statement, which may see neither the emptied ledgers' rows nor their copy.
create or replace function sluice.list_claims(
    log_name text, group_name text,
    out claim_id bigint, out claimed_at timestamptz, out lease_until timestamptz, out events integer, out settled integer, out renewals integer
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_group sluice.share_group := sluice._require_group(log_name, group_name);
    v_last sluice.claim := sluice._last_claim(v_group.group_id);
begin
    return query
        select c.claim_id, c.claimed_at - v_last.clock_shift, coalesce(o.renewed_until, c.lease_until - v_last.clock_shift), c.events + c.redeliveries, o.settled, o.renewals
        from sluice.claim as c
        cross join lateral (
            select coalesce(sum(o.events), 0)::integer as settled,
                (count(*) filter (where o.outcome = 'renew'))::integer as renewals,
                (array_agg(least(o.outcome_at, clock_timestamp()) + o.delay order by o.outcome_no desc) filter (where o.outcome = 'renew'))[1] as renewed_until
            from sluice.outcome as o
            where o.group_id = c.group_id and o.claim_id = c.claim_id
        ) as o
        where c.group_id = v_group.group_id
          and c.claim_id >= v_last.open_claim
          and c.events + c.redeliveries > o.settled
        order by c.claim_id;
end;
$$;

comment on function sluice.list_claims(text, text) is
    'Return the unsettled claims of a share group, oldest first; leases that have ended expire with the next claim.';
revoke execute on function sluice.list_claims(text, text) from public;
grant execute on function sluice.list_claims(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
