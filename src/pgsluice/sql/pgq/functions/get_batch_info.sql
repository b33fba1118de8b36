create or replace function pgq.get_batch_info(
    x_batch_id bigint,
    out queue_name text, out consumer_name text, out batch_start timestamptz, out batch_end timestamptz,
    out prev_tick_id bigint, out tick_id bigint, out lag interval, out seq_start bigint, out seq_end bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    select q.queue_name, c.co_name, s.pos_last_time, s.pos_next_time, s.pos_last_tick, s.pos_next_tick,
        clock_timestamp() - s.pos_next_time, s.pos_last_seq, s.pos_next_seq
    into queue_name, consumer_name, batch_start, batch_end, prev_tick_id, tick_id, lag, seq_start, seq_end
    from pgq.standing as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where s.pos_batch = x_batch_id
      and s.sub_key = coalesce(
          (select p.pos_subscriber from pgq.position_0 as p where p.pos_batch = x_batch_id limit 1),
          (select p.pos_subscriber from pgq.position_1 as p where p.pos_batch = x_batch_id limit 1)
      );
end;
$$;

comment on function pgq.get_batch_info(bigint) is
    'Return the log, the consumer, both ticks and the lag of a batch; nulls if it is not open.';
revoke execute on function pgq.get_batch_info(bigint) from public;
grant execute on function pgq.get_batch_info(bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
