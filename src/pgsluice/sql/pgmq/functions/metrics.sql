create or replace function pgmq.metrics(queue_name text)
returns pgmq.metrics_result
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_result pgmq.metrics_result;
begin
    execute format(
        $query$
        select
            $1,
            count(*),
            extract(epoch from now() - max(queued.enqueued_at))::integer,
            extract(epoch from now() - min(queued.enqueued_at))::integer,
            -- Ids handed out, rolled back ones included; 0 before the first.
            (select case when ids.is_called then ids.last_value else 0 end from pgmq.%2$I as ids),
            now(),
            count(*) filter (where queued.vt <= now()),
            null::bigint
        from pgmq.%1$I as queued
        $query$,
        v_queue, v_queue || '_msg_id_seq'
    )
    using queue_name
    into v_result;
    return v_result;
end;
$$;

comment on function pgmq.metrics(text) is
    'Length, visible length, ages in seconds (null when empty) and ids handed out of one queue.';
revoke execute on function pgmq.metrics(text) from public;
grant execute on function pgmq.metrics(text) to sluice_admin, sluice_reader, sluice_monitor;
