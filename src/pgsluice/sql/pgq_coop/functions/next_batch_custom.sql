create or replace function pgq_coop.next_batch_custom(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text, i_min_lag interval, i_min_count integer, i_min_interval interval
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgq_coop.next_batch_custom(i_queue_name, i_consumer_name, i_subconsumer_name, i_min_lag, i_min_count, i_min_interval, null::interval);
end;
$$;

comment on function pgq_coop.next_batch_custom(text, text, text, interval, integer, interval) is
    'As next_batch, with a minimum age, number of events or length of a new batch.';
revoke execute on function pgq_coop.next_batch_custom(text, text, text, interval, integer, interval) from public;
grant execute on function pgq_coop.next_batch_custom(text, text, text, interval, integer, interval) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

-- Locks the main consumer, then the member, and waits only for the main consumer, so that no deadlock is possible. A
-- batch is the main consumer's next one. The main consumer moves immediately, and the batch's ticks are the member's
-- position until it is finished, so that its segments are not reclaimed.
create or replace function pgq_coop.next_batch_custom(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text,
    i_min_lag interval, i_min_count integer, i_min_interval interval, i_dead_interval interval
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_member pgq.subscriber;
    v_main pgq.subscriber;
    v_position pgq.position_0;
    v_source pgq.position_0;
    v_next pgq.tick;
    v_batch_id bigint;
begin
    -- The member is looked up under the main consumer's lock: until then it may be considered dead and removed.
    loop
        select s.* into v_main
        from pgq.subscriber as s
        join pgq.queue as q on q.queue_id = s.sub_queue
        join pgq.consumer as c on c.co_id = s.sub_consumer
        where q.queue_name = i_queue_name
          and c.co_name = i_consumer_name
        for no key update of s;
        v_member := pgq_coop._member(i_queue_name, i_consumer_name, i_subconsumer_name);
        exit when v_main.sub_key is not null and v_member.sub_key is not null;
        perform pgq_coop.register_subconsumer(i_queue_name, i_consumer_name, i_subconsumer_name);
    end loop;
    select s.* into v_member from pgq.subscriber as s where s.sub_key = v_member.sub_key for no key update skip locked;
    if not found then
        raise exception using
            errcode = 'PQ004',
            message = format('subconsumer %s.%s on queue %s is busy', i_consumer_name, i_subconsumer_name, i_queue_name),
            detail = 'Another session is using or removing this subconsumer.',
            hint = 'give each process its own subconsumer name, or try again';
    end if;

    perform pgq._refuse_restored(v_main.sub_queue);
    v_position := pgq._position(v_member.sub_key, v_member.sub_ledger);
    perform pgq._refuse_lost(v_member.sub_key, v_position.pos_lost);
    if v_position.pos_batch is not null then
        -- The request is a heartbeat.
        v_position.pos_active := clock_timestamp();
        perform pgq._move(v_member.sub_ledger, v_position);
        return v_position.pos_batch;
    end if;
    if i_dead_interval is not null then
        v_batch_id := pgq_coop._take_over(v_member, v_position, i_dead_interval);
        if v_batch_id is not null then
            return v_batch_id;
        end if;
    end if;

    v_source := pgq._position(v_main.sub_key, v_main.sub_ledger);
    perform pgq._refuse_lost(v_main.sub_key, v_source.pos_lost);
    if v_source.pos_batch is not null then
        raise exception using
            errcode = 'PQ004',
            message = 'main consumer has batch open?',
            detail = format('%s on queue %s has batch %s open.', i_consumer_name, i_queue_name, v_source.pos_batch),
            hint = 'finish it with pgq.finish_batch(); a consumer with subconsumers opens no batches itself';
    end if;
    v_next := pgq._choose_tick(v_main.sub_queue, v_source, i_min_lag, i_min_count, i_min_interval);
    if v_next.tick_id is null then
        return null;
    end if;
    perform pgq._move(v_main.sub_ledger, pgq._at_tick(v_source, v_next));
    v_source.pos_subscriber := v_position.pos_subscriber;
    v_source.pos_move := v_position.pos_move;
    v_source.pos_active := clock_timestamp();
    v_source.pos_batch := nextval('pgq.batch_id_seq');
    v_source.pos_next_tick := v_next.tick_id;
    v_source.pos_next_time := v_next.tick_time;
    v_source.pos_next_seq := v_next.tick_event_seq;
    v_source.pos_next_snapshot := v_next.tick_snapshot;
    perform pgq._move(v_member.sub_ledger, v_source);
    return v_source.pos_batch;
end;
$$;

comment on function pgq_coop.next_batch_custom(text, text, text, interval, integer, interval, interval) is
    'As next_batch with a dead interval, and a minimum age, number of events or length of a new batch.';
revoke execute on function pgq_coop.next_batch_custom(text, text, text, interval, integer, interval, interval) from public;
grant execute on function pgq_coop.next_batch_custom(text, text, text, interval, integer, interval, interval) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
