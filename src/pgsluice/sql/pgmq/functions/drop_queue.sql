create or replace function pgmq.drop_queue(queue_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_archive text := pgmq.format_table_name(queue_name, 'a');
    v_registered text;
    v_function regprocedure;
begin
    if queue_name is not null then
        perform pgmq.acquire_queue_lock(queue_name);
    end if;

    perform from pg_class as c where c.relnamespace = 'pgmq'::regnamespace and c.relname = v_queue;
    if not found then
        raise notice 'pgmq queue `%` does not exist', queue_name;
        return false;
    end if;

    -- Only by the name it was created with: drop_queue('Orders') must not drop 'orders'.
    select m.queue_name
    into v_registered
    from pgmq.meta as m
    where lower('q_' || m.queue_name) = v_queue
    order by m.queue_name = drop_queue.queue_name desc
    limit 1;
    if v_registered <> queue_name then
        raise exception using
            errcode = 'QU002',
            message = format('queue %L is not dropped: its table belongs to queue %L', queue_name, v_registered),
            hint = format('to drop that queue, call pgmq.drop_queue(%L)', v_registered);
    end if;

    perform pgmq._partman_forget(queue_name);
    execute format('drop table if exists pgmq.%I', v_queue);
    execute format('drop table if exists pgmq.%I', v_archive);
    -- A partitioned queue has no settler. "if exists" would raise a notice that PGMQ has not.
    for v_function in
        select p.oid::regprocedure
        from pg_proc as p
        where p.oid in (
            to_regprocedure(format('pgmq.%I(timestamptz, interval, integer, jsonb, boolean)', v_queue)),
            to_regprocedure(format('pgmq.%I(bigint, integer, timestamptz, boolean)', v_archive))
        )
    loop
        execute format('drop function %s', v_function);
    end loop;
    delete from sluice.attempt as noted where noted.queue_name = lower(drop_queue.queue_name);
    delete from pgmq.meta as m where m.queue_name = drop_queue.queue_name;
    perform sluice._finish_predecessors(
        v_queue, array(select distinct p.msg_id from sluice.predecessor as p where p.queue_table = v_queue order by 1)
    );
    perform sluice.note_action('drop_queue'::text, queue_name, null::jsonb, null::bigint, null::text);
    return true;
end;
$$;

comment on function pgmq.drop_queue(text) is
    'Drop a work queue with its messages and its archive; false if it does not exist.';
revoke execute on function pgmq.drop_queue(text) from public;
grant execute on function pgmq.drop_queue(text) to sluice_admin;

create or replace function pgmq.drop_queue(queue_name text, partitioned boolean)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- As in PGMQ, an invalid name is an error before the warning.
    perform pgmq.format_table_name(queue_name, 'q');
    raise warning 'drop_queue(queue_name, partitioned) is deprecated and will be removed in PGMQ v2.0. Use drop_queue(queue_name) instead';
    perform pgmq.drop_queue(queue_name);
    return true;
end;
$$;

comment on function pgmq.drop_queue(text, boolean) is
    'Deprecated: drop_queue(queue_name) that always returns true.';
revoke execute on function pgmq.drop_queue(text, boolean) from public;
grant execute on function pgmq.drop_queue(text, boolean) to sluice_admin;
