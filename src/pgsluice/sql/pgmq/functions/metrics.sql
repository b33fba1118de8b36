-- The length of the default partitions, of queue and archive together as in PGMQ, is exact up to v_counted_max and the
-- planner's estimate above it: a scrape must not read a whole backlog. It is null where neither table is partitioned.
create or replace function pgmq.metrics(queue_name text)
returns pgmq.metrics_result
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_counted_max constant integer := 10000; -- in a default partition
    v_counted record;
    v_default record;
    v_rows bigint;
    v_result pgmq.metrics_result;
begin
    select * into v_counted from pgmq._count(v_queue, now());
    v_result.queue_name := queue_name;
    v_result.queue_length := v_counted.length;
    v_result.newest_msg_age_sec := pgmq._age_s(v_counted.newest);
    v_result.oldest_msg_age_sec := pgmq._age_s(v_counted.oldest);
    -- Ids given out, including those rolled back; 0 before the first.
    execute format(
        'select case when ids.is_called then ids.last_value else 0 end from pgmq.%I as ids', v_queue || '_msg_id_seq'
    )
    into v_result.total_messages;
    v_result.scrape_time := now();
    v_result.queue_visible_length := v_counted.visible;
    for v_default in
        select key.default_partition as leaf, c.reltuples::bigint as row_estimate
        from (values ('q'), ('a')) as kind (prefix)
        cross join lateral to_regclass(format('pgmq.%I', pgmq.format_table_name(metrics.queue_name, kind.prefix))) as parent (oid)
        cross join lateral sluice._partition_key(parent.oid) as key
        join pg_class as c on c.oid = key.default_partition
    loop
        execute format('select count(*) from (select from %s limit $1) as counted', v_default.leaf)
        into v_rows
        using v_counted_max;
        v_result.default_partition_length := coalesce(v_result.default_partition_length, 0)
            + case when v_rows < v_counted_max then v_rows else greatest(v_rows, v_default.row_estimate) end;
    end loop;
    return v_result;
end;
$$;

comment on function pgmq.metrics(text) is
    'Return length, visible length, ages in seconds (null if empty) and ids given out of one queue; lengths above 5,000 are estimates.';
revoke execute on function pgmq.metrics(text) from public;
grant execute on function pgmq.metrics(text) to sluice_admin, sluice_reader, sluice_monitor;
