create or replace function sluice._caller_id()
returns regrole
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select quote_ident(sluice._caller())::regrole;
$$;

comment on function sluice._caller_id() is
    'Return the oid of the role whose rights the session has outside of security definer functions.';
revoke execute on function sluice._caller_id() from public;
grant execute on function sluice._caller_id() to sluice_admin;
