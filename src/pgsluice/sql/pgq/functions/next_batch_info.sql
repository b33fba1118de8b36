create or replace function pgq.next_batch_info(
    i_queue_name text, i_consumer_name text,
    out batch_id bigint, out cur_tick_id bigint, out prev_tick_id bigint,
    out cur_tick_time timestamptz, out prev_tick_time timestamptz,
    out cur_tick_event_seq bigint, out prev_tick_event_seq bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    select n.batch_id, n.cur_tick_id, n.prev_tick_id, n.cur_tick_time, n.prev_tick_time, n.cur_tick_event_seq, n.prev_tick_event_seq
    into batch_id, cur_tick_id, prev_tick_id, cur_tick_time, prev_tick_time, cur_tick_event_seq, prev_tick_event_seq
    from pgq.next_batch_custom(i_queue_name, i_consumer_name, null::interval, null::integer, null::interval) as n;
end;
$$;

comment on function pgq.next_batch_info(text, text) is
    'As next_batch, with both ticks of the batch; nulls if there is no new tick.';
revoke execute on function pgq.next_batch_info(text, text) from public;
grant execute on function pgq.next_batch_info(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
