-- Not while events wait for a handler of the type: without the declaration the next claim would accept them.
create or replace function sluice._expire_types(i_group sluice.share_group, i_claim sluice.claim)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_kept constant interval := '7 days';
    v_lanes constant jsonb := coalesce(i_claim.left_lanes, '{}');
begin
    perform from sluice.group_type as t where t.group_id = i_group.group_id and t.is_handled and t.noted_at < clock_timestamp() - v_kept;
    if not found then
        return;
    end if;
    perform from sluice.share_group as g where g.group_id = i_group.group_id for no key update;
    delete from sluice.group_type as t
    where t.group_id = i_group.group_id
      and t.is_handled
      and t.noted_at < clock_timestamp() - v_kept
      and not (
          v_lanes ? t.ev_type
          or t.ev_type = '' and exists (select from jsonb_object_keys(v_lanes) as l (lane) where l.lane <> all (i_group.types))
      );
    if found then
        perform sluice._store_types(i_group.group_id);
    end if;
end;
$$;

comment on function sluice._expire_types(sluice.share_group, sluice.claim) is
    'Remove the declarations of event types that no worker has made for a week, unless events wait for them.';
revoke execute on function sluice._expire_types(sluice.share_group, sluice.claim) from public;
grant execute on function sluice._expire_types(sluice.share_group, sluice.claim) to pgq_admin, sluice_admin;
