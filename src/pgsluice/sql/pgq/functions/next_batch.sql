create or replace function pgq.next_batch(i_queue_name text, i_consumer_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_subscription record;
    v_next_tick bigint;
    v_batch_id bigint;
begin
    -- Locked, so that two sessions of one consumer cannot open two batches over the same events.
    select s.sub_queue, s.sub_consumer, s.sub_last_tick, s.sub_batch
    into v_subscription
    from pgq.subscription as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = i_queue_name
      and c.co_name = i_consumer_name
    for update of s;
    if not found then
        raise exception using
            errcode = 'PQ002',
            message = format('Not subscriber to queue: %s/%s', i_queue_name, i_consumer_name),
            hint = format('register it with pgq.register_consumer(%L, %L)', i_queue_name, i_consumer_name);
    end if;
    if v_subscription.sub_batch is not null then
        return v_subscription.sub_batch;
    end if;

    select t.tick_id
    into v_next_tick
    from pgq.tick as t
    where t.tick_queue = v_subscription.sub_queue
      and t.tick_id > v_subscription.sub_last_tick
    order by t.tick_id
    limit 1;
    if not found then
        return null;
    end if;

    update pgq.subscription as s
    set sub_batch = nextval('pgq.batch_id_seq'),
        sub_next_tick = v_next_tick,
        sub_active = now()
    where s.sub_queue = v_subscription.sub_queue
      and s.sub_consumer = v_subscription.sub_consumer
    returning s.sub_batch into v_batch_id;
    return v_batch_id;
end;
$$;

comment on function pgq.next_batch(text, text) is
    'Open the consumer''s next batch, or return the one that is open; null when no tick has come since.';
revoke execute on function pgq.next_batch(text, text) from public;
grant execute on function pgq.next_batch(text, text) to sluice_admin, sluice_reader;
