/*
 * Code of a role may run with the rights of another one, the runner, if it gains nothing by that: the runner itself, the
 * owner of the schemas, a role that can become that owner, or a superuser.
 *
 * Reads: the catalog.
 */
create or replace function sluice._trusts(runner oid, code_owner oid)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select code_owner = runner
        or pg_has_role(code_owner, (select n.nspowner from pg_namespace as n where n.nspname = 'sluice'), 'member');
$$;

comment on function sluice._trusts(oid, oid) is
    'Return whether code of a role may run with the rights of another one: its own code, or that of the schemas'' owner, of a role that can become it, or of a superuser.';
revoke execute on function sluice._trusts(oid, oid) from public;
grant execute on function sluice._trusts(oid, oid) to pgq_admin, sluice_admin;

-- The owner of a schema may drop what is in it, and create another object with that name.
create or replace function sluice._trusts(runner oid, schema_name text)
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

comment on function sluice._trusts(oid, text) is
    'Return sluice._trusts of a schema''s owner; null if the schema does not exist.';
revoke execute on function sluice._trusts(oid, text) from public;
grant execute on function sluice._trusts(oid, text) to pgq_admin, sluice_admin;
