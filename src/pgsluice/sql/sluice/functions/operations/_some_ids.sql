create or replace function sluice._some_ids(i_ids bigint[])
returns jsonb
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select to_jsonb(i_ids[:100]);
$$;

comment on function sluice._some_ids(bigint[]) is
    'Return the first hundred ids, for the record of an action.';
revoke execute on function sluice._some_ids(bigint[]) from public;
grant execute on function sluice._some_ids(bigint[]) to pgq_admin, sluice_admin;
