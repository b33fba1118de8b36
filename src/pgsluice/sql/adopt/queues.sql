-- Each queue as pgmq.create would have made it, with its FIFO index and its notifications if it had them.
do $$
declare
    v_queue record;
    v_index record;
begin
    for v_queue in
        select * from adopted_queue as q where q.queue_oid is not null order by q.queue_name
    loop
        -- PGMQ's index on vt, which has the name of ours: of no use to any query, and in the way of every update.
        for v_index in
            select i.indexrelid::regclass::text as name
            from pg_index as i
            join pg_class as c on c.oid = i.indexrelid
            where i.indrelid = v_queue.queue_oid
              and c.relname = (v_queue.queue_table || '_vt_idx')::name
              and i.indpred is null
        loop
            execute format('drop index %s', v_index.name);
        end loop;
        perform pgmq._create_queue(v_queue.queue_name, v_queue.is_unlogged);
        if v_queue.has_gin then
            perform pgmq.create_fifo_index(v_queue.queue_name);
        end if;
        if v_queue.has_trigger then
            perform pgmq.enable_notify_insert(v_queue.queue_name, v_queue.throttle_interval_ms);
        end if;
    end loop;
end;
$$;
