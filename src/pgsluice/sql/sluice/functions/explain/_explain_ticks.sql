/*
 * Consumers read up to the newest tick. It is late if events were inserted and no tick followed within three times the
 * maximum lag and ten seconds, or if there was none within twice the idle period. Then the leader of maintenance makes none, or
 * there is no leader.
 *
 * Calls: pgq._last_tick, pgq._event_seq, sluice.leader.
 */
create or replace function sluice._explain_ticks(i_log pgq.queue)
returns table (at timestamptz, cause text, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick constant pgq.tick := pgq._last_tick(i_log.queue_id);
    v_events constant bigint := pgq._event_seq(i_log.queue_id) - v_tick.tick_event_seq;
    v_now constant timestamptz := clock_timestamp();
begin
    if i_log.queue_ticker_paused then
        return query values (null::timestamptz, 'ticker paused', '{}'::jsonb);
    end if;
    if v_tick.tick_time < v_now - 2 * i_log.queue_ticker_idle_period - interval '10 seconds'
        or v_events > 0 and v_tick.tick_time < v_now - 3 * i_log.queue_ticker_max_lag - interval '10 seconds'
    then
        return query values (
            v_tick.tick_time, 'no tick', jsonb_build_object('events', v_events, 'is_external', i_log.queue_external_ticker)
        );
        if not i_log.queue_external_ticker and not i_log.queue_ticker_paused then
            return query select null::timestamptz, 'maintenance', jsonb_build_object('session', sluice._session(
                (select l.candidate from sluice.leader('maintenance'::text) as l where l.is_active)
            ));
        end if;
    elsif v_events > 0 then
        return query values (v_tick.tick_time, 'next tick', jsonb_build_object('events', v_events));
    end if;
    if i_log.queue_disable_insert then
        return query values (null::timestamptz, 'closed', '{}'::jsonb);
    end if;
end;
$$;

comment on function sluice._explain_ticks(pgq.queue) is
    'Return the reasons by which the ticks of a log keep consumers from its events.';
revoke execute on function sluice._explain_ticks(pgq.queue) from public;
grant execute on function sluice._explain_ticks(pgq.queue) to pgq_admin, sluice_admin;
