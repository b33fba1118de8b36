/*
 * Storage settings of one table of a queue or an archive, or of one partition. A table that is as it should be is not locked.
 *
 * A table without a primary key, such as a partition that pg_partman made for PGMQ, has the whole row as its replica identity:
 * else a publication would make updates and deletes fail.
 */
create or replace function pgmq._tune_storage(table_oid regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform
    from pg_class as c
    where c.oid = table_oid
      and c.relreplident = 'd'
      and not exists (select from pg_index as i where i.indrelid = c.oid and i.indisprimary);
    if found then
        execute format('alter table %s replica identity full', table_oid);
    end if;
end;
$$;

comment on function pgmq._tune_storage(regclass) is
    'Give a table of a queue or an archive the storage settings of this release.';
revoke execute on function pgmq._tune_storage(regclass) from public;
grant execute on function pgmq._tune_storage(regclass) to sluice_admin;
