-- Reads: the catalogs. One row for each partition with a range, in order; not the default partition.
create or replace function sluice._partition_bounds(parent regclass)
returns table (leaf regclass, starts_at bigint, ends_at bigint)
language sql
stable
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO'
as $$
    select c.oid::regclass,
        sluice._partition_position(bound.texts[1], key.is_time),
        sluice._partition_position(bound.texts[2], key.is_time)
    from sluice._partition_key(parent) as key
    join pg_inherits as i on i.inhparent = parent
    join pg_class as c on c.oid = i.inhrelid
    cross join lateral regexp_match(
        pg_get_expr(c.relpartbound, c.oid), E'^FOR VALUES FROM \\(''?([^'')]+)''?\\) TO \\(''?([^'')]+)''?\\)$'
    ) as bound (texts)
    where bound.texts is not null
    order by 2;
$$;

comment on function sluice._partition_bounds(regclass) is
    'Return the ranges of a table''s partitions in order; the start is inclusive, the end exclusive.';
revoke execute on function sluice._partition_bounds(regclass) from public;
grant execute on function sluice._partition_bounds(regclass) to sluice_admin, sluice_reader, sluice_monitor;
