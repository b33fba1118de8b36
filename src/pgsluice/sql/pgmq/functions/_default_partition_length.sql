-- Of the queue and its archive together, as PGMQ has it. Exact to the bound, beyond it the planner's estimate: a scrape must
-- not pay for what piled up. Reads: the catalogs, the default partitions.
create or replace function pgmq._default_partition_length(queue_name text)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_counted_max constant integer := 10000;
    v_default record;
    v_counted bigint;
    v_length bigint;
begin
    for v_default in
        select key.default_partition as leaf, c.reltuples::bigint as row_estimate
        from (values ('q'), ('a')) as kind (prefix)
        cross join lateral to_regclass(format('pgmq.%I', pgmq.format_table_name(queue_name, kind.prefix))) as parent (oid)
        cross join lateral sluice._partition_key(parent.oid) as key
        join pg_class as c on c.oid = key.default_partition
    loop
        execute format('select count(*) from (select from %s limit $1) as counted', v_default.leaf)
        into v_counted
        using v_counted_max;
        v_length := coalesce(v_length, 0)
            + case when v_counted < v_counted_max then v_counted else greatest(v_counted, v_default.row_estimate) end;
    end loop;
    return v_length;
end;
$$;

comment on function pgmq._default_partition_length(text) is
    'Rows that have no partition of their own, in a queue and its archive; null where neither has partitions.';
revoke execute on function pgmq._default_partition_length(text) from public;
grant execute on function pgmq._default_partition_length(text) to sluice_admin, sluice_reader, sluice_monitor;
