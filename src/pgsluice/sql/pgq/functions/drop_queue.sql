create or replace function pgq.drop_queue(x_queue_name text, x_force boolean)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_table name;
    v_function regprocedure;
begin
    -- The row lock makes a concurrent registration wait, and then fail.
    select q.queue_id into v_queue_id from pgq.queue as q where q.queue_name = x_queue_name for update;
    if not found then
        raise exception using
            errcode = 'PQ001',
            table = coalesce(x_queue_name, 'NULL'),
            message = 'No such event queue',
            detail = format('There is no event log %L.', x_queue_name),
            hint = 'pgq.get_queue_info() lists the existing ones';
    end if;

    if x_force then
        perform case
            when s.sub_is_group then sluice.drop_group(x_queue_name, c.co_name)::integer
            else pgq.unregister_consumer(x_queue_name, c.co_name)
        end
        from pgq.subscriber as s
        join pgq.consumer as c on c.co_id = s.sub_consumer
        where s.sub_queue = v_queue_id;
    else
        perform from pgq.subscriber as s where s.sub_queue = v_queue_id;
        if found then
            raise exception using
                errcode = 'PQ005',
                message = 'cannot drop queue, consumers still attached',
                detail = (
                    select format('The consumers of %L: %s.', x_queue_name, string_agg(c.co_name, ', ' order by c.co_name))
                    from pgq.subscriber as s
                    join pgq.consumer as c on c.co_id = s.sub_consumer
                    where s.sub_queue = v_queue_id
                ),
                hint = format('unregister them, or call pgq.drop_queue(%L, true)', x_queue_name);
        end if;
    end if;

    -- Children before their parents, by this order.
    for v_table in
        select c.relname
        from pgq._log_relations(array[v_queue_id]) as r
        join pg_class as c on c.oid = r.relation
        where c.relkind = 'r'
        order by length(c.relname) desc, c.relname
    loop
        execute format('drop table pgq.%I', v_table);
    end loop;
    delete from pgq.queue as q where q.queue_id = v_queue_id;
    delete from pgq.origin as o where o.queue_id = v_queue_id;
    execute format('drop sequence pgq.%I', format('event_%s_id_seq', v_queue_id));
    execute format('drop sequence pgq.%I', format('event_%s_tick_seq', v_queue_id));
    for v_function in
        select p.oid::regprocedure
        from pg_proc as p
        where p.pronamespace = 'pgq'::regnamespace
          -- The range is searched by an index; '`' sorts before the letters.
          and (
            p.proname > format('tick_%s_`', v_queue_id)::name and p.proname < format('tick_%s_{', v_queue_id)::name
            or p.proname > format('event_%s_`', v_queue_id)::name and p.proname < format('event_%s_{', v_queue_id)::name
          )
    loop
        execute format('drop function %s', v_function);
    end loop;
    -- Listeners leave this channel; a log of the same name that is created again has another one.
    perform pg_notify(format('sluice.log_%s', v_queue_id), 'dropped');
    perform sluice.note_action('drop_queue'::text, x_queue_name, null::jsonb, null::bigint, null::text);
    return 1;
end;
$$;

comment on function pgq.drop_queue(text, boolean) is
    'Drop an event log with its events; raises an error if it has consumers, unless force is true. Returns 1.';
revoke execute on function pgq.drop_queue(text, boolean) from public;
grant execute on function pgq.drop_queue(text, boolean) to pgq_admin, sluice_admin;

create or replace function pgq.drop_queue(x_queue_name text)
returns integer
language sql
strict
security definer
set search_path = pg_catalog, pg_temp
as $$
    select pgq.drop_queue(x_queue_name, false);
$$;

comment on function pgq.drop_queue(text) is
    'Drop an event log that has no consumers; returns 1, and does nothing for null.';
revoke execute on function pgq.drop_queue(text) from public;
grant execute on function pgq.drop_queue(text) to pgq_admin, sluice_admin;
