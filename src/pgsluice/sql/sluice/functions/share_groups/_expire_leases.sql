-- Each lease is checked once after it expires, in the order of expiry. Nearly all claims are settled by then. A claim is made under the group's lock with a
-- lease that ends in the future, and group time never decreases (sluice._next_claim): so no lease expires before the last one checked.
create or replace function sluice._expire_leases(i_group sluice.share_group, inout claim sluice.claim, out is_news boolean, out is_busy boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    -- Per call; the next call continues.
    v_leases_max constant integer := 1000;
    v_events_max constant integer := 5000;
    v_lease record;
    v_leases integer := 0;
    v_events integer := 0;
begin
    is_news := false;
    for v_lease in
        select c.claim_id, c.lease_until,
            c.events + c.redeliveries > (
                select coalesce(sum(o.events), 0)
                from sluice.outcome as o
                where o.group_id = c.group_id and o.claim_id = c.claim_id
            ) as is_open
        from sluice.claim as c
        where c.group_id = i_group.group_id
          and (c.lease_until, c.claim_id) > (claim.lapsed_until, claim.lapsed_claim)
          and c.lease_until <= claim.claimed_at
        order by c.lease_until, c.claim_id
        limit v_leases_max
    loop
        if v_lease.is_open then
            v_events := v_events + sluice._expire_lease(i_group, claim, v_lease.claim_id, 0);
            is_news := true;
        end if;
        claim.lapsed_until := v_lease.lease_until;
        claim.lapsed_claim := v_lease.claim_id;
        v_leases := v_leases + 1;
        exit when v_events >= v_events_max;
    end loop;
    is_busy := v_leases >= 10;
end;
$$;

comment on function sluice._expire_leases(sluice.share_group, sluice.claim) is
    'Expire the leases of a share group that ended since the last claim.';
revoke execute on function sluice._expire_leases(sluice.share_group, sluice.claim) from public;
grant execute on function sluice._expire_leases(sluice.share_group, sluice.claim) to pgq_admin, sluice_admin;
