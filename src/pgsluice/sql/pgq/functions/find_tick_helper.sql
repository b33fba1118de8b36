create or replace function pgq.find_tick_helper(
    i_queue_id integer, i_prev_tick_id bigint, i_prev_tick_time timestamptz, i_prev_tick_seq bigint,
    i_min_count bigint, i_min_interval interval,
    out next_tick_id bigint, out next_tick_time timestamptz, out next_tick_seq bigint
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_last pgq.tick;
begin
    perform from pgq.queue as q where q.queue_id = i_queue_id;
    if not found then
        return;
    end if;

    -- All available events in one batch, if they suffice and are at most twice the requested minimum.
    v_last := pgq._last_tick(i_queue_id);
    if i_prev_tick_time > clock_timestamp() then
        -- That tick is from before the clock was set back, so its age is unknown: treat it as old enough.
        i_prev_tick_time := v_last.tick_time - i_min_interval;
    end if;
    if v_last.tick_id > i_prev_tick_id
        and (v_last.tick_event_seq >= i_prev_tick_seq + i_min_count or v_last.tick_time >= i_prev_tick_time + i_min_interval)
        and (v_last.tick_event_seq > i_prev_tick_seq + 2 * i_min_count) is not true
        and (v_last.tick_time > i_prev_tick_time + 2 * i_min_interval) is not true
    then
        next_tick_id := v_last.tick_id;
        next_tick_time := v_last.tick_time;
        next_tick_seq := v_last.tick_event_seq;
        return;
    end if;

    execute format(
        'select t.tick_id, t.tick_time, t.tick_event_seq
         from pgq.%I as t
         where t.tick_id > $1 and (t.tick_event_seq >= $2 or t.tick_time >= $3)
         order by t.tick_id
         limit 1',
        format('tick_%s', i_queue_id)
    )
    using i_prev_tick_id, i_prev_tick_seq + i_min_count, i_prev_tick_time + i_min_interval
    into next_tick_id, next_tick_time, next_tick_seq;
end;
$$;

comment on function pgq.find_tick_helper(integer, bigint, timestamptz, bigint, bigint, interval) is
    'Return the tick that ends a batch of a minimum number of events or length: the last one, unless that exceeds twice the minimum.';
revoke execute on function pgq.find_tick_helper(integer, bigint, timestamptz, bigint, bigint, interval) from public;
grant execute on function pgq.find_tick_helper(integer, bigint, timestamptz, bigint, bigint, interval) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
