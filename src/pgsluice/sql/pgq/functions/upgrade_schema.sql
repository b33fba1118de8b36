create or replace function pgq.upgrade_schema()
returns integer
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select 0;
$$;

comment on function pgq.upgrade_schema() is
    'Return the number of upgrades done: always 0, as the installer upgrades the tables.';
revoke execute on function pgq.upgrade_schema() from public;
grant execute on function pgq.upgrade_schema() to pgq_admin, sluice_admin;
