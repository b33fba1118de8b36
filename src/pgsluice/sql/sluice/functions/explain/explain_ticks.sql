/*
 * Consumers read up to the newest tick. It is late if an event waits for longer than three times the maximum lag and ten
 * seconds. Maintenance makes no ticks in an idle log, but pg_cron, pgqd and external tickers do: so no ticks for twice the idle
 * period mean that no process ticks, unless there is a leader of maintenance. `pgsluice doctor` calls this too.
 *
 * Calls: pgq._last_tick, pgq._event_seq, pgq._oldest_events, sluice.leader.
 */
create or replace function sluice.explain_ticks(log_name text)
returns table (at timestamptz, cause text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_log constant pgq.queue := pgq._require_log(log_name);
    v_tick pgq.tick;
    v_events bigint;
    v_now constant timestamptz := clock_timestamp();
    v_late_at constant timestamptz := v_now - 3 * v_log.queue_ticker_max_lag - interval '10 seconds';
    v_is_late boolean := false;
begin
    if v_log.queue_ticker_paused then
        return query values (null::timestamptz, 'ticker paused', '{}'::jsonb);
    end if;
    begin
        v_tick := pgq._last_tick(v_log.queue_id);
        v_events := pgq._event_seq(v_log.queue_id) - v_tick.tick_event_seq;
        if v_tick.tick_time < v_late_at then
            v_is_late := coalesce((pgq._oldest_events(v_log.queue_id, array[v_tick.tick_snapshot], array[null::integer]))[1] < v_late_at, false);
        end if;
        raise sqlstate 'RL000'; -- releases the locks: doctor calls this for all logs
    exception
        when sqlstate 'RL000' then
            null;
    end;
    -- A retried event, and one that was committed late, have lower numbers than the tick.
    if v_is_late then
        v_events := greatest(1, v_events);
    end if;
    if v_is_late or v_tick.tick_time < v_now - 2 * v_log.queue_ticker_idle_period - interval '10 seconds'
        and (v_log.queue_external_ticker or not (sluice.leader('maintenance'::text)).is_active)
    then
        return query values (
            v_tick.tick_time, 'no tick', jsonb_build_object('events', v_events, 'is_external', v_log.queue_external_ticker)
        );
        if not v_log.queue_external_ticker and not v_log.queue_ticker_paused then
            return query select null::timestamptz, 'maintenance', jsonb_build_object('session', sluice._session(
                (select l.candidate from sluice.leader('maintenance'::text) as l where l.is_active)
            ));
        end if;
    elsif v_events > 0 then
        return query values (v_tick.tick_time, 'next tick', jsonb_build_object('events', v_events));
    end if;
    if v_log.queue_disable_insert then
        return query values (null::timestamptz, 'closed', '{}'::jsonb);
    end if;
end;
$$;

comment on function sluice.explain_ticks(text) is
    'Return the reasons by which the ticks of a log keep consumers from its events.';
revoke execute on function sluice.explain_ticks(text) from public;
grant execute on function sluice.explain_ticks(text) to pgq_admin, sluice_admin, sluice_monitor, sluice_reader;
