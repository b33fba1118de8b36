/*
 * See sluice.explain_queue for the rows. Consumers with the largest lag first, up to 20; that of a share group does not count what it
 * has claimed. Calls: sluice.explain_ticks.
 */
create or replace function sluice.explain_log(log_name text)
returns table (section text, at timestamptz, cause text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_log constant pgq.queue := pgq._require_log(log_name);
    v_tick constant pgq.tick := pgq._last_tick(v_log.queue_id);
    v_may_read constant boolean := sluice._may_read(format('pgq.event_%s', v_log.queue_id)::regclass);
begin
    return query values
        (
            'state', null::timestamptz, 'log',
            jsonb_build_object(
                'state', case when v_log.queue_disable_insert then 'closed' else 'open' end, 'log_name', v_log.queue_name,
                'newest_ev_id', pgq._event_seq(v_log.queue_id)
            )
        ),
        ('state', v_tick.tick_time, 'newest tick', jsonb_build_object('tick_id', v_tick.tick_id)),
        ('history', v_log.queue_switch_time, 'rotated', '{}');
    return query
        select 'reason', clock_timestamp() - make_interval(secs => l.idle_s), case when l.lost is not null then 'position lost' else 'consumer lag' end,
            jsonb_build_object(
                'consumer_name', l.consumer_name, 'lag_events', n.lag_events, 'idle_s', l.idle_s, 'pinned_bytes', l.pinned_bytes, 'lost', l.lost
            )
        from sluice.list_consumers(v_log.queue_name) as l
        left join sluice.list_groups(v_log.queue_name, null::text) as g on g.group_name = l.consumer_name
        cross join lateral (select coalesce(g.lag_events, l.lag_events) as lag_events) as n
        where n.lag_events > 0 or l.lost is not null
        order by l.lost, n.lag_events desc
        limit 20;
    return query select 'reason', t.* from sluice.explain_ticks(v_log.queue_name) as t;
    return query select 'reason', f.* from sluice._explain_failures(v_log.queue_name, null::text, v_may_read) as f;
end;
$$;

comment on function sluice.explain_log(text) is
    'Explain a log: its newest event and tick, and why consumers have not read the newest events; one row per fact, with the time it refers to, a word for it, and its values.';
revoke execute on function sluice.explain_log(text) from public;
grant execute on function sluice.explain_log(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
