create or replace function sluice._counted(i_number bigint, i_noun text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format('%s %s%s', i_number, i_noun, case when i_number <> 1 then 's' end);
$$;

comment on function sluice._counted(bigint, text) is
    'Return a number and a noun, in the plural unless the number is 1.';
revoke execute on function sluice._counted(bigint, text) from public;
grant execute on function sluice._counted(bigint, text) to pgq_admin, sluice_admin;
