create or replace function sluice._take_redeliveries(
    i_group sluice.share_group, i_qty integer, inout claim sluice.claim, out is_news boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_next record;
    v_has_looked boolean := true;
begin
    is_news := false;
    while v_has_looked and claim.redeliveries < i_qty
    loop
        v_has_looked := false;
        for v_next in
            select r.due_at, r.redelivery_id, r.look_at, r.attempts
            from sluice.redelivery as r
            where r.group_id = i_group.group_id
              and (r.due_at, r.redelivery_id) > (claim.upto_due, claim.upto_redelivery)
              and r.due_at <= claim.claimed_at
            order by r.due_at, r.redelivery_id
            limit i_qty - claim.redeliveries
        loop
            is_news := true;
            claim.upto_due := v_next.due_at;
            claim.upto_redelivery := v_next.redelivery_id;
            if v_next.look_at is null then
                claim.redeliveries := claim.redeliveries + 1;
            else
                -- It may add redeliveries that are due now: read again.
                perform sluice._expire_lease(i_group, claim, v_next.look_at, coalesce(v_next.attempts, 0));
                v_has_looked := true;
                exit;
            end if;
        end loop;
    end loop;
end;
$$;

comment on function sluice._take_redeliveries(sluice.share_group, integer, sluice.claim) is
    'Take the due redeliveries of a share group, and check the leases that are scheduled among them.';
revoke execute on function sluice._take_redeliveries(sluice.share_group, integer, sluice.claim) from public;
grant execute on function sluice._take_redeliveries(sluice.share_group, integer, sluice.claim) to pgq_admin, sluice_admin;
