create or replace function pgq.register_consumer_at(x_queue_name text, x_consumer_name text, x_tick_pos bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_consumer_id integer;
    v_tick pgq.tick;
    v_subscriber pgq.subscriber;
    v_position pgq.position_0;
    v_is_new boolean := false;
begin
    -- Shared with other registrations, but not with drop_queue, nor with a rotation, which relies on the positions of
    -- all consumers: only here can a new position precede all others.
    select q.queue_id into v_queue_id from pgq.queue as q where q.queue_name = x_queue_name for share;
    if not found then
        raise exception using
            errcode = 'PQ001',
            table = coalesce(x_queue_name, 'NULL'),
            message = 'Event queue not created yet',
            detail = format('There is no event log %L.', x_queue_name),
            hint = format('create it with pgq.create_queue(%L)', x_queue_name);
    end if;
    if x_consumer_name is null then
        raise exception using
            errcode = '22004',
            message = 'consumer name is null',
            hint = 'pass the name of the consumer';
    end if;

    v_consumer_id := pgq._consumer_id(x_consumer_name);
    select s.* into v_subscriber
    from pgq.subscriber as s
    where s.sub_queue = v_queue_id and s.sub_consumer = v_consumer_id
    for key share;
    if found and x_tick_pos is null then
        return 0;
    end if;

    if x_tick_pos is not null then
        v_tick := pgq._find_tick(v_queue_id, x_tick_pos, true);
    else
        v_tick := pgq._last_tick(v_queue_id);
        if v_tick.tick_id is null then
            raise exception using
                errcode = 'PQ004',
                message = 'No ticks for this queue.  Please run ticker on database.',
                detail = format('The event log is %L.', x_queue_name),
                hint = 'call pgq.ticker() first';
        end if;
    end if;

    if v_subscriber.sub_key is null then
        insert into pgq.subscriber (sub_id, sub_queue, sub_consumer)
        values (nextval('pgq.subscription_sub_id_seq'), v_queue_id, v_consumer_id)
        on conflict (sub_queue, sub_consumer) do nothing
        returning * into v_subscriber;
        v_is_new := found;
    end if;
    -- It was registered already, or by a concurrent session: move its position.
    if not v_is_new then
        if x_tick_pos is null then
            return 0;
        end if;
        select s.* into v_subscriber
        from pgq.subscriber as s
        where s.sub_queue = v_queue_id and s.sub_consumer = v_consumer_id
        for no key update;
        perform pgq._refuse_group(v_subscriber.sub_key);
        if v_subscriber.sub_main is not null then
            raise exception using
                errcode = 'PQ004',
                message = format('consumer %s on queue %s is a subconsumer', x_consumer_name, x_queue_name),
                detail = 'It has no position of its own.',
                hint = 'move the main consumer';
        end if;
        v_position := pgq._position(v_subscriber.sub_key, v_subscriber.sub_ledger);
    end if;
    v_position.pos_subscriber := v_subscriber.sub_key;
    perform pgq._move(v_subscriber.sub_ledger, pgq._at_tick(v_position, v_tick));
    return v_is_new::integer;
end;
$$;

comment on function pgq.register_consumer_at(text, text, bigint) is
    'Register a consumer at a tick, or move it there and drop its open batch; returns 1 if it is new, 0 if it was registered.';
revoke execute on function pgq.register_consumer_at(text, text, bigint) from public;
grant execute on function pgq.register_consumer_at(text, text, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
