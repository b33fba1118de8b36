create or replace function pgq.upgrade_schema()
returns integer
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select 0;
$$;

comment on function pgq.upgrade_schema() is
    'How many things were upgraded: none, as the tables are upgraded by the installer.';
revoke execute on function pgq.upgrade_schema() from public;
grant execute on function pgq.upgrade_schema() to pgq_admin, sluice_admin;
