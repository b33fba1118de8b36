create or replace function pgmq.metrics(queue_name text)
returns pgmq.metrics_result
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_counted record;
    v_result pgmq.metrics_result;
begin
    select * into v_counted from pgmq._count(v_queue, now());
    v_result.queue_name := queue_name;
    v_result.queue_length := v_counted.length;
    v_result.newest_msg_age_sec := pgmq._age_s(v_counted.newest);
    v_result.oldest_msg_age_sec := pgmq._age_s(v_counted.oldest);
    -- Ids handed out, rolled back ones included; 0 before the first.
    execute format(
        'select case when ids.is_called then ids.last_value else 0 end from pgmq.%I as ids', v_queue || '_msg_id_seq'
    )
    into v_result.total_messages;
    v_result.scrape_time := now();
    v_result.queue_visible_length := v_counted.visible;
    v_result.default_partition_length := pgmq._default_partition_length(queue_name);
    return v_result;
end;
$$;

comment on function pgmq.metrics(text) is
    'Length, visible length, ages in seconds (null when empty) and ids handed out of one queue; lengths beyond 5,000 are estimates.';
revoke execute on function pgmq.metrics(text) from public;
grant execute on function pgmq.metrics(text) to sluice_admin, sluice_reader, sluice_monitor;
