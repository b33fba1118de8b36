-- Called for every batch by every consumer, and most calls find nothing new: the statements of pgq._position, pgq._move,
-- pgq._tick_after and pgq._is_restored are repeated here, with the settings of the first. Each nested function would cost more
-- than its statement.
create or replace function pgq.next_batch_custom(
    i_queue_name text, i_consumer_name text, i_min_lag interval, i_min_count integer, i_min_interval interval,
    out batch_id bigint, out cur_tick_id bigint, out prev_tick_id bigint,
    out cur_tick_time timestamptz, out prev_tick_time timestamptz,
    out cur_tick_event_seq bigint, out prev_tick_event_seq bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_subscriber record;
    v_position pgq.position_0;
    v_next pgq.tick;
begin
    -- Locked, so that two sessions of one consumer cannot open two batches over the same events; the position is read
    -- after the lock. NO KEY UPDATE: see pgq._hold_batch. The consumer is found first: a join would look up the name of
    -- each of the log's consumers.
    select s.sub_key, s.sub_queue, s.sub_ledger, s.sub_is_group, q.queue_cur_table
    into v_subscriber
    from pgq.queue as q
    join pgq.subscriber as s on s.sub_queue = q.queue_id
    where q.queue_name = i_queue_name
      and s.sub_consumer = (select c.co_id from pgq.consumer as c where c.co_name = i_consumer_name)
    for no key update of s;
    if not found then
        raise exception using
            errcode = 'PQ002',
            table = coalesce(i_queue_name, 'NULL'),
            constraint = coalesce(i_consumer_name, 'NULL'),
            message = format(
                'Not subscriber to queue: %s/%s', coalesce(i_queue_name, 'NULL'), coalesce(i_consumer_name, 'NULL')
            ),
            hint = format('register it with pgq.register_consumer(%L, %L)', i_queue_name, i_consumer_name);
    end if;
    if v_subscriber.sub_is_group then
        perform pgq._refuse_group(v_subscriber.sub_key);
    end if;
    if v_subscriber.sub_ledger = 0 then
        select p.* into v_position
        from pgq.position_0 as p
        where p.pos_subscriber = v_subscriber.sub_key
        order by p.pos_move desc
        limit 1;
    else
        select p.* into v_position
        from pgq.position_1 as p
        where p.pos_subscriber = v_subscriber.sub_key
        order by p.pos_move desc
        limit 1;
    end if;
    if v_position.pos_lost is not null then
        perform pgq._refuse_lost(v_subscriber.sub_key, v_position.pos_lost);
    end if;

    if v_position.pos_batch is null then
        if v_position.pos_last_tick is null then
            v_position := pgq._position(v_subscriber.sub_key, v_subscriber.sub_ledger);
            perform pgq._refuse_lost(v_subscriber.sub_key, v_position.pos_lost);
            raise exception using
                errcode = 'PQ004',
                message = format('consumer %s on queue %s is a subconsumer', i_consumer_name, i_queue_name),
                detail = 'Its batches come from the main consumer.',
                hint = 'open them with pgq_coop.next_batch()';
        end if;
        if i_min_lag is null and i_min_count is null and i_min_interval is null then
            if pg_sequence_last_value(format('pgq.event_%s_tick_seq', v_subscriber.sub_queue)::regclass) > v_position.pos_last_tick then
                execute format(
                    'select t.* from pgq.tick_%s_%s as t where t.tick_id = $1', v_subscriber.sub_queue, v_subscriber.queue_cur_table
                )
                using v_position.pos_last_tick + 1
                into v_next;
                if v_next.tick_id is null then
                    v_next := pgq._tick_after(v_subscriber.sub_queue, v_position.pos_last_tick);
                end if;
            end if;
        else
            v_next := pgq._choose_tick(v_subscriber.sub_queue, v_position, i_min_lag, i_min_count, i_min_interval);
        end if;
        if v_next.tick_id is null then
            return;
        end if;
        v_position.pos_move := v_position.pos_move + 1;
        v_position.pos_active := clock_timestamp();
        v_position.pos_batch := nextval('pgq.batch_id_seq');
        v_position.pos_next_tick := v_next.tick_id;
        v_position.pos_next_time := v_next.tick_time;
        v_position.pos_next_seq := v_next.tick_event_seq;
        v_position.pos_next_snapshot := v_next.tick_snapshot;
        if v_subscriber.sub_ledger = 0 then
            insert into pgq.position_0 values (v_position.*) on conflict do nothing;
        else
            insert into pgq.position_1 values (v_position.*) on conflict do nothing;
        end if;
    end if;

    if (select count(*) from pgq.origin as o where o.queue_id = v_subscriber.sub_queue and o.made_by = o.xmin) <> 2 then
        perform pgq._refuse_restored(v_subscriber.sub_queue);
    end if;
    batch_id := v_position.pos_batch;
    cur_tick_id := v_position.pos_next_tick;
    prev_tick_id := v_position.pos_last_tick;
    cur_tick_time := v_position.pos_next_time;
    prev_tick_time := v_position.pos_last_time;
    cur_tick_event_seq := v_position.pos_next_seq;
    prev_tick_event_seq := v_position.pos_last_seq;
end;
$$;

comment on function pgq.next_batch_custom(text, text, interval, integer, interval) is
    'Open the consumer''s next batch with a minimum age, number of events or length, or return the open one; nulls if there is none.';
revoke execute on function pgq.next_batch_custom(text, text, interval, integer, interval) from public;
grant execute on function pgq.next_batch_custom(text, text, interval, integer, interval) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
