-- A key recorded by one role would tell another role that its own message or work is done. So one of the two roles must be
-- able to act as the other. Entries of dropped roles, and those from before entries had a role, count for all roles.
create or replace function sluice._require_sender(owner regrole, what text)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_caller regrole := sluice._caller_id();
begin
    if owner = v_caller
        or owner is null
        or not exists (select from pg_roles as r where r.oid = owner)
        or pg_has_role(v_caller, owner, 'member')
        or pg_has_role(owner, v_caller, 'member')
    then
        return;
    end if;
    raise exception using
        errcode = 'insufficient_privilege',
        message = format('%s belongs to role %s, not to %s', what, owner, v_caller),
        hint = format(
            'use another key; or let both roles use it as one of them: grant %s to %s, and set role %s before the call',
            owner, v_caller, owner
        );
end;
$$;

comment on function sluice._require_sender(regrole, text) is
    'Raise an error if a key was used by a role unrelated to the caller.';
revoke execute on function sluice._require_sender(regrole, text) from public;
grant execute on function sluice._require_sender(regrole, text) to sluice_admin;
