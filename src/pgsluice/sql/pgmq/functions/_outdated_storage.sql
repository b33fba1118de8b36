/*
 * Storage settings of the tables of queues and archives, and of partitions. A table with the right settings is not
 * locked, and a setting that a user chose is kept.
 *
 * Each claim leaves a dead row and each message at least two, so a queue is vacuumed after 1,000 dead rows plus a
 * hundredth of its rows, without cost delay. How often autovacuum checks is a server setting, autovacuum_naptime;
 * README.md has measurements.
 *
 * A table without a primary key, such as a partition that pg_partman made for PGMQ, gets replica identity full:
 * otherwise a publication would make updates and deletes fail.
 */
create or replace function pgmq._outdated_storage(table_oids oid[], out table_oid oid, out statement text)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select c.oid, concat_ws(
        '; ',
        case when is_outdated.settings then format(
            'alter table %s set (
                autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0
            )',
            c.oid::regclass
        ) end,
        case when is_outdated.identity then format('alter table %s replica identity full', c.oid::regclass) end
    )
    from unnest(table_oids) as t (table_oid)
    join pg_class as c on c.oid = t.table_oid
    cross join lateral (
        select
            c.relkind = 'r' and c.relname like E'q\\_%' and coalesce(array_to_string(c.reloptions, ' '), '') !~ 'autovacuum',
            c.relreplident = 'd' and not exists (select from pg_index as i where i.indrelid = c.oid and i.indisprimary)
    ) as is_outdated (settings, identity)
    where is_outdated.settings or is_outdated.identity
    order by c.oid;
$$;

comment on function pgmq._outdated_storage(oid[]) is
    'List the tables of queues and archives whose storage differs from this release, with the statements that correct it.';
revoke execute on function pgmq._outdated_storage(oid[]) from public;
grant execute on function pgmq._outdated_storage(oid[]) to sluice_admin;
