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
            counted.length,
            extract(epoch from now() - counted.newest)::integer,
            extract(epoch from now() - counted.oldest)::integer,
            -- Ids handed out, rolled back ones included; 0 before the first.
            (select case when ids.is_called then ids.last_value else 0 end from pgmq.%I as ids),
            now(),
            counted.visible,
            null::bigint
        from pgmq._count($2, now()) as counted
        $query$,
        v_queue || '_msg_id_seq'
    )
    using queue_name, v_queue
    into v_result;
    return v_result;
end;
$$;

comment on function pgmq.metrics(text) is
    'Length, visible length, ages in seconds (null when empty) and ids handed out of one queue; lengths beyond 5,000 are estimates.';
revoke execute on function pgmq.metrics(text) from public;
grant execute on function pgmq.metrics(text) to sluice_admin, sluice_reader, sluice_monitor;
