create or replace function sluice._wake_for_redeliveries(i_group sluice.share_group, i_claim sluice.claim)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (
        select
        from sluice.redelivery as r
        where r.group_id = i_group.group_id
          and (r.due_at, r.redelivery_id) > (i_claim.upto_due, i_claim.upto_redelivery)
          and r.due_at <= i_claim.claimed_at
    ) then
        perform pgq._notify_tick(i_group.queue_id, null);
    end if;
end;
$$;

comment on function sluice._wake_for_redeliveries(sluice.share_group, sluice.claim) is
    'Notify the sessions that wait for a claim of a share group if events are due for redelivery.';
revoke execute on function sluice._wake_for_redeliveries(sluice.share_group, sluice.claim) from public;
grant execute on function sluice._wake_for_redeliveries(sluice.share_group, sluice.claim) to pgq_admin, sluice_admin;
