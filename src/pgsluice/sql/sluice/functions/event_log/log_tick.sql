-- Unlike pgq.ticker, which decides if a tick is due, this always leaves a tick that covers everything committed before the
-- call: a stream that reads the available events and then ends needs one.
-- Security definer: it writes to pgq.tick.
create or replace function sluice.log_tick(log_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue record;
    v_last pgq.tick;
    v_is_new boolean;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format(
                'cannot tick event log %L in a %s transaction', log_name, current_setting('transaction_isolation')
            ),
            hint = 'tick in a READ COMMITTED transaction';
    end if;
    v_queue := pgq._require_log(log_name);

    -- Waits, where the ticker skips the log: a concurrent tick may have a snapshot from before this
    -- call. The snapshot of the insert below is taken after the lock, so ticks stay in snapshot order.
    perform pgq._lock_ticks(v_queue.queue_id, true);
    v_last := pgq._last_tick(v_queue.queue_id);

    if v_queue.queue_external_ticker or v_queue.queue_ticker_paused then
        return v_last.tick_id;
    end if;

    -- Check for an event that the last tick does not see. Counting ids does not suffice: a transaction that took its ids
    -- before the last tick may have committed since.
    execute format('select pgq.%I($1, pg_current_snapshot())', format('event_%s_any', v_queue.queue_id))
    using v_last.tick_snapshot
    into v_is_new;
    if not v_is_new then
        perform pgq._require_newer_snapshot(v_queue.queue_id);
        return v_last.tick_id;
    end if;
    return pgq._take_tick(v_queue.queue_id);
end;
$$;

comment on function sluice.log_tick(text) is
    'Tick an event log now if it has new events; returns the newest tick, which covers everything committed before.';
revoke execute on function sluice.log_tick(text) from public;
grant execute on function sluice.log_tick(text) to pgq_admin, sluice_admin;
