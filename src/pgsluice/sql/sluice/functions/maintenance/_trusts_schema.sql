-- The owner of a schema may drop what is in it, and create another object with that name.
create or replace function sluice._trusts_schema(runner oid, schema_name text)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select sluice._trusts(
        runner, case when n.nspowner = 'pg_database_owner'::regrole then d.datdba else n.nspowner end
    )
    from pg_namespace as n
    join pg_database as d on d.datname = current_database()
    where n.nspname = schema_name;
$$;

comment on function sluice._trusts_schema(oid, text) is
    'Return sluice._trusts of a schema''s owner; null if the schema does not exist.';
revoke execute on function sluice._trusts_schema(oid, text) from public;
grant execute on function sluice._trusts_schema(oid, text) to pgq_admin, sluice_admin;
