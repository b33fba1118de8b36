-- A partition is known by its oid, which a rename keeps. A dropped one has none any more; a detached one may be attached again.
-- One that was captured and is not any more may have been detached and attached again in between.
create or replace function sluice._partition_changes(i_log_name text, i_source_table oid)
returns table (
    source_table oid, log_name text, queue_id integer, partition_oid oid, partition_name text, change text, policy text, is_captured boolean
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
begin
    return query
    with trigger as materialized (
        select c.* from sluice._captures() as c where i_log_name is null or c.log_name = i_log_name
    ), capture as (
        select distinct on (t.source_table, t.log_name) t.source_table, t.log_name, q.queue_id, t.options
        from trigger as t
        join pg_class as r on r.oid = t.source_table and r.relkind = 'p'
        join pgq.queue as q on q.queue_name = t.log_name
        where t.trigger_table = t.source_table
          and t.options is not null
          and (i_source_table is null or t.source_table = i_source_table)
    ), partition as (
        select c.source_table, c.log_name, p.relid::oid as partition_oid, format('%I.%I', n.nspname, r.relname) as partition_name,
            exists (select from trigger as t where t.trigger_table = p.relid and t.log_name = c.log_name) as is_captured
        from capture as c
        cross join lateral pg_partition_tree(c.source_table) as p
        join pg_class as r on r.oid = p.relid
        join pg_namespace as n on n.oid = r.relnamespace
        where p.isleaf
          and p.relid::oid <> c.source_table
    ), noted as (
        select c.source_table, c.log_name, n.partition_oid, n.partition_name, n.is_captured, n.detached_at,
            exists (select from pg_class as r where r.oid = n.partition_oid) as is_there
        from capture as c
        join sluice.captured_partition as n on n.queue_id = c.queue_id and n.table_oid = c.source_table
    ), compared as (
        select coalesce(p.source_table, n.source_table) as source_table, coalesce(p.log_name, n.log_name) as log_name,
            coalesce(p.partition_oid, n.partition_oid) as partition_oid, coalesce(p.partition_name, n.partition_name) as partition_name,
            case
                when n.partition_name is null then 'new'
                when p.partition_name is not null and n.detached_at is not null then 'attached'
                when n.is_captured and not p.is_captured then 'uncaptured'
                when p.partition_name <> n.partition_name or p.is_captured and not n.is_captured then 'renamed'
                when p.partition_name is not null then null
                when n.detached_at is not null then case when not n.is_there then 'forgotten' end
                when n.is_there then 'detached'
                else 'dropped'
            end as change
        from partition as p
        full join noted as n
            on n.source_table = p.source_table and n.log_name = p.log_name and n.partition_oid = p.partition_oid
    )
    select c.source_table, c.log_name, c.queue_id, d.partition_oid, d.partition_name, d.change,
        coalesce(c.options ->> 'dropped_partitions', 'keep'),
        exists (select from trigger as t where t.trigger_table = d.partition_oid and t.log_name = c.log_name)
    from compared as d
    join capture as c on c.source_table = d.source_table and c.log_name = d.log_name
    where d.change is not null
    order by c.log_name, c.source_table, d.partition_name;
end;
$$;

comment on function sluice._partition_changes(text, oid) is
    'Return the partitions of captured tables that are new, renamed or captured now, dropped, detached, attached again or no longer captured since they were noted in sluice.captured_partition, of one log and table or all; forgotten: dropped after it was detached.';
revoke execute on function sluice._partition_changes(text, oid) from public;
grant execute on function sluice._partition_changes(text, oid) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
