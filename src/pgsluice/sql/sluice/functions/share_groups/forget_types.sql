create or replace function sluice.forget_types(log_name text, group_name text, types text[])
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_group constant sluice.share_group := sluice._require_group(log_name, group_name);
    v_removed integer;
begin
    perform from sluice.share_group as g where g.group_id = v_group.group_id for no key update;
    delete from sluice.group_type as t
    where t.group_id = v_group.group_id
      and t.is_handled
      and t.ev_type = any (array(select coalesce(f.name, '') from unnest(types) as f (name)));
    get diagnostics v_removed = row_count;
    perform sluice._store_types(v_group.group_id);
    perform sluice.note_action(
        'forget_types'::text, log_name, jsonb_build_object('group_name', group_name, 'types', types), v_removed::bigint, null::text
    );
    return v_removed;
end;
$$;

comment on function sluice.forget_types(text, text, text[]) is
    'Remove declarations of event types of a share group, null for the declaration of all other types; returns their number. Events that wait for them are then treated by the option unhandled. A running worker that declares a type declares it again within an hour.';
revoke execute on function sluice.forget_types(text, text, text[]) from public;
grant execute on function sluice.forget_types(text, text, text[]) to pgq_admin, sluice_admin;
