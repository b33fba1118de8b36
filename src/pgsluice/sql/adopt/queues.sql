-- Completes each queue as pgmq.create does, with its FIFO index and its notifications if it had them.
do $$
declare
    v_queue record;
    v_index record;
    v_schema name;
    v_owner name := (select pg_get_userbyid(n.nspowner) from pg_namespace as n where n.nspname = 'pgmq');
begin
    -- Functions that create and drop queues call pg_partman with the rights of the schemas' owner.
    select n.nspname
    into v_schema
    from pg_extension as e
    join pg_namespace as n on n.oid = e.extnamespace
    where e.extname = 'pg_partman' and exists (select from adopted_queue as q where q.is_partitioned);
    if found then
        begin
            execute format('grant usage, create on schema %I to %I', v_schema, v_owner);
            execute format('grant select, insert, update, delete on all tables in schema %I to %I', v_schema, v_owner);
            execute format('grant execute on all routines in schema %I to %I', v_schema, v_owner);
            for v_index in
                select c.oid::regclass::text as name
                from pg_class as c
                where c.relnamespace = to_regnamespace(quote_ident(v_schema)) and c.relname ~ '^template_pgmq_' and c.relkind = 'r'
            loop
                execute format('alter table %s owner to %I', v_index.name, v_owner);
            end loop;
        exception
            when insufficient_privilege then
                raise notice using
                    message = format('could not grant %I rights on pg_partman: %s', v_owner, sqlerrm),
                    hint = format('grant them, so that partitioned queues can be dropped: schema %I', v_schema);
        end;
    end if;

    for v_queue in
        select * from adopted_queue as q where q.queue_oid is not null order by q.queue_name
    loop
        -- PGMQ's index on vt has the name of ours: no query can use it, and it slows down every update.
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
        continue when not v_queue.has_gin and not v_queue.has_trigger;
        -- A queue that hand_over.sql left with its owner keeps its index and trigger: they work.
        perform
        from pg_class as c
        where c.oid = v_queue.queue_oid
          and c.relowner <> (select n.nspowner from pg_namespace as n where n.nspname = 'pgmq');
        if found then
            raise notice using
                message = format('queue %L keeps the FIFO index and the notify trigger that PGMQ made', v_queue.queue_name),
                hint = 'give its tables to the owner of schema pgmq, and call create_fifo_index and enable_notify_insert';
            continue;
        end if;
        if v_queue.has_gin then
            perform pgmq.create_fifo_index(v_queue.queue_name);
        end if;
        if v_queue.has_trigger then
            perform pgmq.enable_notify_insert(v_queue.queue_name, v_queue.throttle_interval_ms);
        end if;
    end loop;
end;
$$;
