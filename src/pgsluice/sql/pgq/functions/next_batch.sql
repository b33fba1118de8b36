create or replace function pgq.next_batch(i_queue_name text, i_consumer_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_subscriber record;
    v_position pgq.position_0;
    v_next pgq.tick;
begin
    -- Locked, so that two sessions of one consumer cannot open two batches over the same events; the position is read after it.
    select s.sub_key, s.sub_queue, s.sub_ledger
    into v_subscriber
    from pgq.subscriber as s
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
    v_position := pgq._position(v_subscriber.sub_key, v_subscriber.sub_ledger);
    if v_position.pos_batch is not null then
        return v_position.pos_batch;
    end if;

    v_next := pgq._tick_after(v_subscriber.sub_queue, v_position.pos_last_tick);
    if v_next.tick_id is null then
        return null;
    end if;
    v_position.pos_batch := nextval('pgq.batch_id_seq');
    v_position.pos_next_tick := v_next.tick_id;
    v_position.pos_next_time := v_next.tick_time;
    v_position.pos_next_seq := v_next.tick_event_seq;
    v_position.pos_next_snapshot := v_next.tick_snapshot;
    perform pgq._move(v_subscriber.sub_ledger, v_position);
    return v_position.pos_batch;
end;
$$;

comment on function pgq.next_batch(text, text) is
    'Open the consumer''s next batch, or return the one that is open; null when no tick has come since.';
revoke execute on function pgq.next_batch(text, text) from public;
grant execute on function pgq.next_batch(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
