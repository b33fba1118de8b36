-- See sluice.explain_message for the columns. Consumers with the largest lag first, up to 20. Calls: sluice._explain_ticks.
create or replace function sluice.explain_log(queue_name text)
returns table (ordinal integer, section text, at timestamptz, fact text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_log constant pgq.queue := pgq._require_log(queue_name);
    v_tick constant pgq.tick := pgq._last_tick(v_log.queue_id);
    v_absent_s constant integer := 3600; -- as in sluice._explain_position
    v_may_read constant boolean := sluice._may_read(format('pgq.event_%s', v_log.queue_id)::regclass);
begin
    return query
        select (row_number() over (order by part.number, part.position))::integer, part.section,
            case when isfinite(part.at) then part.at end, part.fact, jsonb_strip_nulls(part.detail)
        from (
            select 1 as number, 1::bigint as position, 'state' as section, null::timestamptz as at,
                format('The last event id of log %s is %s', v_log.queue_name, pgq._event_seq(v_log.queue_id)) as fact,
                jsonb_build_object(
                    'state', case when v_log.queue_disable_insert then 'closed' else 'open' end, 'queue_name', v_log.queue_name,
                    'newest_ev_id', pgq._event_seq(v_log.queue_id)
                ) as detail
            union all
            select 2, 1, 'state', v_tick.tick_time, format('Tick %s, the newest one, was made', v_tick.tick_id), jsonb_build_object('tick_id', v_tick.tick_id)
            union all
            select 3, 1, 'history', v_log.queue_switch_time, 'Its segments were last rotated', '{}'
            union all
            select 4, row_number() over (order by c.lost, c.lag_events desc), 'reason',
                clock_timestamp() - make_interval(secs => c.idle_s),
                case
                    when c.lost is not null then format('The position of consumer %s was given up; it was last active', c.consumer_name)
                    else format(
                        'Consumer %s is about %s behind%s; it was last active', c.consumer_name, sluice._counted(c.lag_events, 'event'),
                        case
                            when c.is_absent then format(
                                ' and keeps %s of segments (if it does not return, unregister it)', pg_size_pretty(c.pinned_bytes)
                            )
                        end
                    )
                end,
                jsonb_build_object(
                    'cause', case when c.lost is not null then 'position lost' else 'consumer lag' end,
                    'consumer_name', c.consumer_name, 'lag_events', c.lag_events, 'pinned_bytes', c.pinned_bytes,
                    'command', case
                        when c.lost is not null or c.is_absent then format(
                            'pgsluice log unregister %s %s', sluice._shell_word(v_log.queue_name), sluice._shell_word(c.consumer_name)
                        )
                    end
                )
            from (
                select l.*, l.pinned_bytes > 0 and l.idle_s > v_absent_s as is_absent
                from sluice.list_consumers(v_log.queue_name) as l
                where l.lag_events > 0 or l.lost is not null
                order by l.lag_events desc nulls first
                limit 20
            ) as c
            union all
            select 5, r.position, 'reason', r.at, r.fact, r.detail
            from sluice._explain_ticks(v_log) with ordinality as r (at, fact, detail, position)
            union all
            select 6, r.position, 'reason', r.at, r.fact, r.detail
            from sluice._explain_failures(v_log.queue_name, null::text, v_may_read) with ordinality as r (at, fact, detail, position)
        ) as part
        order by 1;
end;
$$;

comment on function sluice.explain_log(text) is
    'Explain a log: its newest event and tick, and why consumers have not read the newest events; one row per fact, with the time it refers to.';
revoke execute on function sluice.explain_log(text) from public;
grant execute on function sluice.explain_log(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
