-- Drops functions and types that cannot be replaced in place.
do $$
declare
    v_function record;
    v_type record;
    v_attribute text;
    v_queue record;
begin
    for v_function in
        select f.signature from adopted_function as f where f.action = 'drop'
    loop
        execute format('drop function %s', v_function.signature);
    end loop;
    for v_type in
        select t.name, t.action, t.missing from adopted_type as t
    loop
        if v_type.action = 'replace' then
            execute format('drop type pgmq.%I', v_type.name);
            continue;
        end if;
        foreach v_attribute in array v_type.missing
        loop
            execute format('alter type pgmq.%I add attribute %s', v_type.name, v_attribute);
        end loop;
    end loop;

    if exists (
        select from pg_class as c where c.oid = to_regclass('pgmq.notify_insert_throttle') and c.relpersistence = 'u'
    ) then
        alter table pgmq.notify_insert_throttle set logged;
    end if;
    for v_queue in
        select t.oid::regclass::text as name
        from adopted_queue as q
        cross join lateral (values (q.queue_oid), (q.archive_oid)) as t (oid)
        where q.columns_missing > 0 and t.oid is not null
    loop
        execute format('alter table %s add column if not exists headers jsonb', v_queue.name);
        execute format('alter table %s add column if not exists last_read_at timestamptz', v_queue.name);
    end loop;
end;
$$;
