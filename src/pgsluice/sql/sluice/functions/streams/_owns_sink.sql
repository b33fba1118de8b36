create or replace function sluice._owns_sink(owner regrole)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select owner is null
        or not exists (select from pg_roles as r where r.oid = owner)
        or pg_has_role(sluice._caller_id(), owner, 'member');
$$;

comment on function sluice._owns_sink(regrole) is
    'True if the caller is a sink''s owner or a member of it, or if the sink has no owner any more.';
revoke execute on function sluice._owns_sink(regrole) from public;
grant execute on function sluice._owns_sink(regrole) to sluice_admin;
