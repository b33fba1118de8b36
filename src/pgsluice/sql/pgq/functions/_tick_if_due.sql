-- See pgq.ticker for the order of the statements. known is what pgq._logs_to_check needs to skip this log in later passes of the
-- session. It is read under the lock, so no other session ticks meanwhile.
create or replace function pgq._tick_if_due(i_queue pgq.queue, out tick_id bigint, out known text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_last pgq.tick;
    v_lag interval;
    v_gap interval;
    v_events bigint;
    v_is_due boolean := true;
begin
    perform pgq._refuse_restored(i_queue.queue_id); -- even if no tick is due
    if not pgq._lock_ticks(i_queue.queue_id, false) then
        return; -- another session is ticking this log
    end if;
    if i_queue.queue_switch_step2 is null then
        perform pgq._finish_switch(i_queue.queue_id);
    end if;

    v_last := pgq._last_tick(i_queue.queue_id);

    if v_last.tick_id is not null then
        v_lag := clock_timestamp() - v_last.tick_time;
        v_events := pgq._event_seq(i_queue.queue_id) - v_last.tick_event_seq;
        if v_lag < '0' then
            null; -- the clock was set back, and the age of that tick is unknown: tick now
        elsif v_events > 0 then
            v_is_due := v_events >= i_queue.queue_ticker_max_count or v_lag >= i_queue.queue_ticker_max_lag;
        -- No new numbers, but transactions that were in progress at the last tick may have committed since:
        -- tick again at growing intervals.
        elsif v_lag < i_queue.queue_ticker_max_lag / 2 then
            v_is_due := false;
        else
            v_gap := v_last.tick_time - (pgq._find_tick(i_queue.queue_id, v_last.tick_id - 1, false)).tick_time;
            v_is_due := v_lag >= i_queue.queue_ticker_idle_period or (v_lag < 2 * v_gap) is not true;
        end if;
    end if;

    if v_is_due then
        tick_id := pgq._take_tick(i_queue.queue_id);
    else
        known := format(
            '%s %s %s %s',
            pg_sequence_last_value(format('pgq.event_%s_tick_seq', i_queue.queue_id)::regclass),
            date_part('epoch', v_last.tick_time), v_last.tick_event_seq, coalesce(date_part('epoch', v_gap), 0)
        );
    end if;
end;
$$;

comment on function pgq._tick_if_due(pgq.queue) is
    'Tick a log if due; returns the tick_id, or if no tick is due, what pgq._logs_to_check needs to know; nulls if another session is ticking it.';
revoke execute on function pgq._tick_if_due(pgq.queue) from public;
grant execute on function pgq._tick_if_due(pgq.queue) to pgq_admin, sluice_admin;
