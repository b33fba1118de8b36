-- GRANT takes a lock. So only a new segment gets the grants of its neighbour; existing segments are not granted again.
create or replace function pgq._copy_grants(i_from text, i_to text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    v_grant record;
begin
    for v_grant in
        select
            lower(a.privilege_type collate "C") || coalesce(' (' || quote_ident(granted.column_name) || ')', '') as privilege,
            case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as role_name,
            case when a.is_grantable then ' with grant option' else '' end as grantable
        from pg_class as c
        cross join lateral (
            select null::name, c.relacl
            union all
            select k.attname, k.attacl from pg_attribute as k where k.attrelid = c.oid and k.attacl is not null
        ) as granted (column_name, acl)
        cross join lateral aclexplode(granted.acl) as a
        where c.oid = format('pgq.%I', i_from)::regclass
          and a.grantee <> c.relowner
    loop
        execute format('grant %s on pgq.%I to %s%s', v_grant.privilege, i_to, v_grant.role_name, v_grant.grantable);
    end loop;
end;
$$;

comment on function pgq._copy_grants(text, text) is
    'Copy the grants on one table of schema pgq to another, including column grants.';
revoke execute on function pgq._copy_grants(text, text) from public;
grant execute on function pgq._copy_grants(text, text) to pgq_admin, sluice_admin;
