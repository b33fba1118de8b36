create or replace function pgmq._tune_storage(table_oid regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_statement text;
begin
    for v_statement in select o.statement from pgmq._outdated_storage(array[table_oid::oid]) as o
    loop
        execute v_statement;
    end loop;
end;
$$;

comment on function pgmq._tune_storage(regclass) is
    'Set the storage settings of this release on a table of a queue or an archive.';
revoke execute on function pgmq._tune_storage(regclass) from public;
grant execute on function pgmq._tune_storage(regclass) to sluice_admin;
