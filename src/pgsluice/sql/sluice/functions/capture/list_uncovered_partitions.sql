-- Only the root of a capture has its triggers for certain: a partition that was created or attached later has none. A table in
-- inheritance with a captured one cannot have them: a statement that names the parent changes rows of both.
create or replace function sluice.list_uncovered_partitions(i_log_name text default null)
returns table (source_table regclass, partition regclass, log_name text, options jsonb)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    with capture as materialized (
        select c.* from sluice._captures() as c where i_log_name is null or c.log_name = i_log_name
    )
    select distinct on (c.source_table, p.relid::oid, c.log_name) c.source_table::regclass, p.relid, c.log_name, c.options
    from capture as c
    join pg_class as r on r.oid = c.trigger_table and r.relkind = 'p'
    cross join lateral pg_partition_tree(c.trigger_table) as p
    where c.trigger_table = c.source_table
      and c.options is not null
      and p.relid <> c.trigger_table
      and (p.isleaf or c.operation <> 'truncate')
      and not exists (
          select
          from capture as of_partition
          where of_partition.trigger_table = p.relid
            and of_partition.log_name = c.log_name
            and of_partition.operation = c.operation
      )
    union
    select c.source_table::regclass,
        (case i.inhparent when c.trigger_table then i.inhrelid else i.inhparent end)::regclass, c.log_name, c.options
    from capture as c
    join pg_class as r on r.oid = c.trigger_table and r.relkind = 'r' and not r.relispartition
    join pg_inherits as i on c.trigger_table in (i.inhparent, i.inhrelid)
    where c.options is not null;
end;
$$;

comment on function sluice.list_uncovered_partitions(text) is
    'Return the partitions of captured tables without a trigger of the capture, and tables that inherit from captured ones or are their parents; of one event log or all.';
revoke execute on function sluice.list_uncovered_partitions(text) from public;
grant execute on function sluice.list_uncovered_partitions(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
