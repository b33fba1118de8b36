-- In a security definer function current_user is its owner. A role set with SET ROLE is in the setting role.
create or replace function sluice._caller()
returns name
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select case when current_setting('role') = 'none' then session_user else current_setting('role')::name end;
$$;

comment on function sluice._caller() is
    'Return the role whose rights the session has outside of security definer functions.';
revoke execute on function sluice._caller() from public;
grant execute on function sluice._caller() to pgq_admin, sluice_admin;
