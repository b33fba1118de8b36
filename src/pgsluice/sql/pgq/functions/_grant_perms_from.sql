create or replace function pgq._grant_perms_from(src_schema text, src_table text, dst_schema text, dst_table text)
returns integer
language plpgsql
strict
set search_path = pg_catalog, pg_temp
as $$
declare
    v_grant record;
begin
    for v_grant in
        select string_agg(lower(a.privilege_type collate "C"), ', ' order by a.privilege_type) as privileges,
            case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as role_name,
            case when a.is_grantable then ' with grant option' else '' end as grantable
        from pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
        cross join lateral aclexplode(c.relacl) as a
        where n.nspname = src_schema
          and c.relname = src_table
          and a.grantee <> c.relowner -- the owner of the copy has its own rights
        group by a.grantee, a.is_grantable
    loop
        execute format(
            'grant %s on %I.%I to %s%s', v_grant.privileges, dst_schema, dst_table, v_grant.role_name, v_grant.grantable
        );
    end loop;
    return 1;
end;
$$;

comment on function pgq._grant_perms_from(text, text, text, text) is
    'Copy the grants on one table to another one; returns 1.';
revoke execute on function pgq._grant_perms_from(text, text, text, text) from public;
grant execute on function pgq._grant_perms_from(text, text, text, text) to pgq_admin, sluice_admin;
