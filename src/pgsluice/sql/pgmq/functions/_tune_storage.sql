/*
 * Storage settings of one table of a queue or an archive, or of one partition. A table that is as it should be is not locked, and a
 * setting that a user chose stays.
 *
 * Each claim leaves a dead row and each message at least two, so a queue is vacuumed after 1,000 of them and a hundredth of its rows, and
 * without pauses. How often autovacuum looks is a setting of the server, autovacuum_naptime; README.md has what was measured.
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
      and c.relkind = 'r'
      and c.relname like 'q\_%'
      and coalesce(array_to_string(c.reloptions, ' '), '') !~ 'autovacuum';
    if found then
        execute format(
            'alter table %s set (
                autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0
            )',
            table_oid
        );
    end if;

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
