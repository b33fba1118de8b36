-- For security definer functions that show figures to every monitoring role, and keys and error texts only to readers. The
-- caller is the role outside of these functions.
create or replace function sluice._may_read(relation regclass)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select has_table_privilege(sluice._caller(), relation, 'select');
$$;

comment on function sluice._may_read(regclass) is
    'True if the caller may read whole rows of a table, and not only the columns for monitoring.';
revoke execute on function sluice._may_read(regclass) from public;
grant execute on function sluice._may_read(regclass) to pgq_admin, sluice_admin;
