-- At a thousand claims a second a thousand leases end, nearly all after their claims were settled. If many ended since the last check, the next check is some
-- milliseconds later instead of at the end of the next lease.
create or replace function sluice._next_look(i_claim sluice.claim, i_is_busy boolean)
returns timestamptz
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_pause constant interval := '20 milliseconds';
    v_lease_until timestamptz;
    v_due_at timestamptz;
begin
    select c.lease_until
    into v_lease_until
    from sluice.claim as c
    where c.group_id = i_claim.group_id
      and c.lease_until is not null
      and (c.lease_until, c.claim_id) > (i_claim.lapsed_until, i_claim.lapsed_claim)
    order by c.lease_until, c.claim_id
    limit 1;
    select r.due_at
    into v_due_at
    from sluice.redelivery as r
    where r.group_id = i_claim.group_id and (r.due_at, r.redelivery_id) > (i_claim.upto_due, i_claim.upto_redelivery)
    order by r.due_at, r.redelivery_id
    limit 1;
    if i_is_busy then
        v_lease_until := greatest(v_lease_until, i_claim.claimed_at + v_pause);
    end if;
    return coalesce(least(v_lease_until, v_due_at), 'infinity');
end;
$$;

comment on function sluice._next_look(sluice.claim, boolean) is
    'Return the time of a share group''s next check of leases and redeliveries; i_is_busy delays it after a check of many leases.';
revoke execute on function sluice._next_look(sluice.claim, boolean) from public;
grant execute on function sluice._next_look(sluice.claim, boolean) to pgq_admin, sluice_admin;
