/*
 * Consumers read up to the newest tick. It is late if events were inserted and no tick followed within three times the
 * maximum lag and ten seconds, or if there was none within twice the idle period.
 *
 * Calls: pgq._last_tick, pgq._event_seq, sluice._explain_leader.
 */
create or replace function sluice._explain_ticks(i_log pgq.queue)
returns table (at timestamptz, fact text, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick constant pgq.tick := pgq._last_tick(i_log.queue_id);
    v_events constant bigint := pgq._event_seq(i_log.queue_id) - v_tick.tick_event_seq;
    v_now constant timestamptz := clock_timestamp();
begin
    if i_log.queue_ticker_paused then
        return query values (
            null::timestamptz, format('The ticker of log %s is paused', i_log.queue_name),
            jsonb_build_object(
                'cause', 'ticker paused',
                'sql', format('select pgq.set_queue_config(%L, ''ticker_paused'', ''false'')', i_log.queue_name),
                'command', format('pgsluice log set %s ticker_paused=false', sluice._shell_word(i_log.queue_name))
            )
        );
    end if;
    if v_tick.tick_time < v_now - 2 * i_log.queue_ticker_idle_period - interval '10 seconds'
        or v_events > 0 and v_tick.tick_time < v_now - 3 * i_log.queue_ticker_max_lag - interval '10 seconds'
    then
        return query values (
            v_tick.tick_time,
            format(
                case
                    when v_events > 0 then 'Consumers cannot read %2$s of log %1$s: %3$s'
                    else 'Log %1$s has no new events, and no ticks either: %3$s'
                end,
                i_log.queue_name, sluice._counted(v_events, 'new event'),
                case when i_log.queue_external_ticker then 'its external ticker made its last tick' else 'its last tick was made' end
            ),
            jsonb_build_object('cause', 'no tick', 'events', v_events)
        );
        if not i_log.queue_external_ticker and not i_log.queue_ticker_paused then
            return query select l.* from sluice._explain_leader() as l;
        end if;
    elsif v_events > 0 then
        return query values (
            v_tick.tick_time,
            format('%s of log %s since the newest tick; consumers read after the next tick', sluice._counted(v_events, 'event'), i_log.queue_name),
            jsonb_build_object('cause', 'next tick', 'events', v_events)
        );
    end if;
    if i_log.queue_disable_insert then
        return query values (
            null::timestamptz, format('Log %s refuses new events (disable_insert)', i_log.queue_name), '{"cause": "closed"}'::jsonb
        );
    end if;
end;
$$;

comment on function sluice._explain_ticks(pgq.queue) is
    'Return the reasons by which the ticks of a log keep consumers from its events.';
revoke execute on function sluice._explain_ticks(pgq.queue) from public;
grant execute on function sluice._explain_ticks(pgq.queue) to pgq_admin, sluice_admin;
