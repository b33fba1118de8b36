-- The expiry of a renewed lease is stored as a row of sluice.redelivery, which a claim reads in the order of due_at. A group without claims needs this
-- function: it checks these leases ahead of events due for redelivery, which only a claim can take, and deletes the rows. The caller holds the group's lock.
create or replace function sluice._check_renewed_leases(i_group sluice.share_group, i_claim sluice.claim)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_checks_max constant integer := 1000; -- per call; the next call continues
    v_checks integer := 0;
    v_check sluice.redelivery;
begin
    for v_check in
        select r.*
        from sluice.redelivery as r
        where r.group_id = i_group.group_id
          and r.look_at is not null
          and r.due_at >= i_claim.upto_due
          and (r.due_at, r.redelivery_id) > (i_claim.upto_due, i_claim.upto_redelivery)
          and r.due_at <= i_claim.claimed_at
        order by r.due_at, r.redelivery_id
        limit v_checks_max
    loop
        perform sluice._expire_lease(i_group, i_claim, v_check.look_at, coalesce(v_check.attempts, 0));
        delete from sluice.redelivery as r
        where r.group_id = v_check.group_id and r.due_at = v_check.due_at and r.redelivery_id = v_check.redelivery_id;
        v_checks := v_checks + 1;
    end loop;
    return v_checks > 0;
end;
$$;

comment on function sluice._check_renewed_leases(sluice.share_group, sluice.claim) is
    'Expire the renewed leases of a share group that are due; returns true if any was checked.';
revoke execute on function sluice._check_renewed_leases(sluice.share_group, sluice.claim) from public;
grant execute on function sluice._check_renewed_leases(sluice.share_group, sluice.claim) to pgq_admin, sluice_admin;
