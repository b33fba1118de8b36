create or replace function pgq.register_consumer(x_queue_name text, x_consumer_id text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_consumer_id integer;
    v_tick pgq.tick;
    v_subscriber record;
    v_position pgq.position_0;
begin
    -- Shared with other registrations, but not with drop_queue, nor with a rotation, which has just asked where all consumers stand.
    select q.queue_id into v_queue_id from pgq.queue as q where q.queue_name = x_queue_name for share;
    if not found then
        raise exception using
            errcode = 'PQ001',
            message = 'Event queue not created yet',
            detail = format('There is no event log %L.', x_queue_name),
            hint = format('create it with pgq.create_queue(%L)', x_queue_name);
    end if;
    if x_consumer_id is null then
        raise exception using
            errcode = '22004',
            message = 'consumer name is null',
            hint = 'give the consumer a name';
    end if;

    -- Twice the same name at once: the second waits for the first and then finds its row.
    insert into pgq.consumer (co_name) values (x_consumer_id) on conflict (co_name) do nothing;
    select c.co_id into v_consumer_id from pgq.consumer as c where c.co_name = x_consumer_id for key share;

    v_tick := pgq._last_tick(v_queue_id);
    if v_tick.tick_id is null then
        raise exception using
            errcode = 'PQ004',
            message = 'No ticks for this queue.  Please run ticker on database.',
            detail = format('The event log is %L.', x_queue_name),
            hint = 'call pgq.ticker() first';
    end if;

    insert into pgq.subscriber (sub_id, sub_queue, sub_consumer)
    values (nextval('pgq.subscription_sub_id_seq'), v_queue_id, v_consumer_id)
    on conflict (sub_queue, sub_consumer) do nothing
    returning sub_key, sub_ledger into v_subscriber;
    if not found then
        return 0;
    end if;
    v_position.pos_subscriber := v_subscriber.sub_key;
    v_position.pos_last_tick := v_tick.tick_id;
    v_position.pos_last_time := v_tick.tick_time;
    v_position.pos_last_seq := v_tick.tick_event_seq;
    v_position.pos_last_snapshot := v_tick.tick_snapshot;
    perform pgq._move(v_subscriber.sub_ledger, v_position);
    return 1;
end;
$$;

comment on function pgq.register_consumer(text, text) is
    'Subscribe a consumer from the latest tick on; 1 when new, 0 when it was there already.';
revoke execute on function pgq.register_consumer(text, text) from public;
grant execute on function pgq.register_consumer(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
