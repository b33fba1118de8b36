-- An owner may transfer a sink only to a role that it is a member of: else it could give another writer a sink whose version
-- is so high that all of that writer's versions look committed.
create or replace function sluice.set_sink_owner(sink_id text, owner name)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_caller constant regrole := sluice._caller_id();
    v_owner regrole := to_regrole(quote_ident(owner));
begin
    perform sluice._require_sink(sink_id, 0::bigint);
    if v_owner is null then
        raise exception using
            errcode = 'undefined_object',
            message = format('role %L does not exist', owner),
            hint = format('pass the role that will write to sink %L', sink_id);
    end if;
    perform sluice._require_sink_owner(sink_id, true);
    if not (
        pg_has_role(v_caller, v_owner, 'member')
        or pg_has_role(v_caller, current_user, 'member')
        or exists (select from pg_roles as r where r.rolname = 'sluice_admin' and pg_has_role(v_caller, r.oid, 'member'))
    ) then
        raise exception using
            errcode = 'insufficient_privilege',
            message = format('%s may not give sink %L to role %s', v_caller, sink_id, v_owner),
            hint = format('have a member of sluice_admin do it, or grant %s to %s first', v_owner, v_caller);
    end if;
    update sluice.sink_commit as c set owned_by = v_owner where c.key = set_sink_owner.sink_id;
    return found;
end;
$$;

comment on function sluice.set_sink_owner(text, name) is
    'Transfer a sink to another role: by its owner to a role that it is a member of, by sluice_admin to any. False if the sink does not exist.';
revoke execute on function sluice.set_sink_owner(text, name) from public;
grant execute on function sluice.set_sink_owner(text, name) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
