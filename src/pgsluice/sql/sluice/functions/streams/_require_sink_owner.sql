-- In security definer functions current_user is the owner of the schemas, whose members administer everything, also on
-- servers without the role sluice_admin.
create or replace function sluice._require_sink_owner(sink_id text, allow_admin boolean)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_caller constant regrole := sluice._caller_id();
    v_owner regrole;
begin
    select c.owned_by into v_owner from sluice.sink_commit as c where c.key = _require_sink_owner.sink_id;
    -- A sink whose owner was dropped has none.
    if v_owner is null
        or not exists (select from pg_roles as r where r.oid = v_owner)
        or pg_has_role(v_caller, v_owner, 'member')
        or allow_admin and (
            pg_has_role(v_caller, current_user, 'member')
            or exists (select from pg_roles as r where r.rolname = 'sluice_admin' and pg_has_role(v_caller, r.oid, 'member'))
        )
    then
        return;
    end if;
    raise exception using
        errcode = 'insufficient_privilege',
        message = format('sink %L belongs to role %s, not to %s', sink_id, v_owner, v_caller),
        hint = format(
            'use another sink_id; or grant %s to %s; or have %s or a member of sluice_admin call sluice.set_sink_owner(%L, %L)',
            v_owner, v_caller, v_owner, sink_id, v_caller
        );
end;
$$;

comment on function sluice._require_sink_owner(text, boolean) is
    'Raise an error if the caller may not write to a sink; with allow_admin administrators may, too.';
revoke execute on function sluice._require_sink_owner(text, boolean) from public;
grant execute on function sluice._require_sink_owner(text, boolean) to sluice_admin;
