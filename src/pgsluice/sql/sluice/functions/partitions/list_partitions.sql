-- Reads: the catalogs, so no table is locked. Includes tables that pg_partman maintains.
create or replace function sluice.list_partitions(queue_name text)
returns table (relation text, partition_name text, starts_at text, ends_at text, row_estimate bigint, total_bytes bigint)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select kind.relation, c.relname::text,
        case when b.starts_at is not null then sluice._partition_literal(b.starts_at, key.is_time) end,
        case when b.ends_at is not null then sluice._partition_literal(b.ends_at, key.is_time) end,
        nullif(c.reltuples, -1)::bigint,
        pg_total_relation_size(c.oid)
    from (values ('queue', 'q'), ('archive', 'a')) as kind (relation, prefix)
    cross join lateral to_regclass(format('pgmq.%I', pgmq.format_table_name(queue_name, kind.prefix))) as parent (oid)
    cross join lateral sluice._partition_key(parent.oid) as key
    join pg_inherits as i on i.inhparent = parent.oid
    join pg_class as c on c.oid = i.inhrelid
    left join sluice._partition_bounds(parent.oid) as b on b.leaf = c.oid
    order by kind.relation desc, b.starts_at nulls last;
$$;

comment on function sluice.list_partitions(text) is
    'Return the partitions of a queue and of its archive in order, the default one last: bounds (null: default partition), the planner''s row estimate (null: never analyzed), bytes with indexes.';
revoke execute on function sluice.list_partitions(text) from public;
grant execute on function sluice.list_partitions(text) to sluice_admin, sluice_reader, sluice_monitor;
