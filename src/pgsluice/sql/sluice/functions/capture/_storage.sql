-- A statement that changes the values of all rows writes them to another file.
create or replace function sluice._storage(relation oid)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select format('%s %s', f.relid, pg_relation_filenode(f.relid))
    from (
        select coalesce(min(p.relid::oid) filter (where p.isleaf), relation) as relid
        from pg_partition_tree(relation) as p
    ) as f;
$$;

comment on function sluice._storage(oid) is
    'Return the table and file node of the rows of a table, of its first partition if it has partitions.';
revoke execute on function sluice._storage(oid) from public;
grant execute on function sluice._storage(oid) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
