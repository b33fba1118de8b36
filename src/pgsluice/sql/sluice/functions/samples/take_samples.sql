/*
 * Appends one sample of each queue, consumer and share group, and every minute and every 15 minutes one that summarizes those
 * of the next higher resolution: gauges by their maximum, counters by their last value.
 *
 * A call lasts little longer than budget, whatever the number of queues and logs: the next call continues with the next one. So
 * with thousands of them samples are less frequent, and the tables stay small. Only one session samples at a time, and none
 * within five seconds of the last samples.
 *
 * The call that reaches the last queue or log appends a sample of all queues together, with the newest one of each. So their
 * history is read as that of one queue.
 *
 * Calls: sluice._queue_state, sluice._log_state, sluice._store_samples, sluice.list_newest_samples.
 */
create or replace function sluice.take_samples(budget interval default '250 milliseconds')
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_period_min constant interval := '5 seconds';
    v_sources_max constant integer := 500;
    v_began_at constant timestamptz := clock_timestamp();
    v_newest constant timestamptz := to_timestamp(pg_sequence_last_value('sluice.sample_turn') / 1000.0);
    v_cursor bigint := coalesce(pg_sequence_last_value('sluice.sample_cursor'), 0);
    v_source record;
    v_found sluice.sample_figures[] := '{}';
    v_stop boolean := false;
    v_round boolean := false; -- reached the last queue or log
    v_taken integer;
begin
    if v_newest > v_began_at - v_period_min and v_newest <= v_began_at then
        return 0;
    end if;
    if not sluice._hold_samples(v_began_at) then
        return 0;
    end if;
    for v_source in
        select listed.kind, listed.name, row_number() over (order by listed.kind, listed.name) as number, count(*) over () as total
        from (
            select 'queue' as kind, m.queue_name::text as name from pgmq.meta as m
            union all
            select 'log', q.queue_name
            from pgq.queue as q
            where exists (select from pgq.subscriber as s where s.sub_queue = q.queue_id)
               or exists (select from sluice.share_group as g where g.log_name = q.queue_name)
        ) as listed
        order by (row_number() over (order by listed.kind, listed.name) <= v_cursor % greatest(count(*) over (), 1)), 1, 2
    loop
        v_stop := clock_timestamp() > v_began_at + budget or cardinality(v_found) >= v_sources_max;
        exit when v_stop;
        v_cursor := v_source.number;
        v_round := v_round or v_source.number = v_source.total;
        -- A queue or log that is being dropped, or is broken, must not hide the others.
        begin
            if v_source.kind = 'queue' then
                v_found := v_found || array(
                    select row(
                        'queue', v_source.name, '', s.length, s.ready, s.in_flight, s.delayed, s.oldest_ready_s, s.sent, s.finished,
                        s.dead, null, null, null, s.retrying
                    )::sluice.sample_figures
                    from sluice._queue_state(v_source.name) as s
                );
            else
                v_found := v_found || array(
                    select row(
                        s.kind, v_source.name, s.reader_name, null, null, s.in_flight, null, null, s.sent, s.finished,
                        s.dead, s.lag_events, s.lag_s, s.pinned_bytes, s.retrying
                    )::sluice.sample_figures
                    from sluice._log_state(v_source.name) as s
                );
            end if;
            -- The rollback releases the locks: one transaction cannot hold those of thousands of queues.
            raise sqlstate 'RL000';
        exception
            when sqlstate 'RL000' then
                null;
            when query_canceled or insufficient_resources then
                raise;
            when others then
                null; -- reported by maintenance and by pgmq.metrics_all
        end;
    end loop;
    v_taken := cardinality(v_found);
    if v_round then
        v_found := v_found || array(
            select row(
                'queues', '', '', sum(q.length), sum(q.ready), sum(q.in_flight), sum(q.delayed), max(q.oldest_ready_s), sum(q.sent),
                sum(q.finished), sum(q.dead), null, null, null, sum(q.retrying)
            )::sluice.sample_figures
            from (
                select f.length, f.ready, f.in_flight, f.delayed, f.oldest_ready_s, f.sent, f.finished, f.dead, f.retrying
                from unnest(v_found) as f
                where f.kind = 'queue'
                union all
                select n.length, n.ready, n.in_flight, n.delayed, n.oldest_ready_s, n.sent, n.finished, n.dead, n.retrying
                from sluice.list_newest_samples('queue'::text) as n
                where not exists (select from unnest(v_found) as f where f.kind = 'queue' and f.name = n.name)
            ) as q
            having count(*) > 0
        );
    end if;
    perform sluice._store_samples(v_found, case when v_stop then v_cursor else 0 end, v_began_at);
    return v_taken;
end;
$$;

comment on function sluice.take_samples(interval) is
    'Append a sample of each queue, consumer and share group, and of all queues together; call it every 10 seconds. Returns their number, without that of all queues; 0 if samples were just taken, or another session is taking them. A call lasts little longer than budget, and the next one continues.';
revoke execute on function sluice.take_samples(interval) from public;
grant execute on function sluice.take_samples(interval) to sluice_admin;
