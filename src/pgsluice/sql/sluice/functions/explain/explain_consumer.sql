/*
 * See sluice.explain_queue for the rows. A share group has those of sluice.explain_group; a pipeline is the consumer that it reads
 * as. A consumer that reads once a minute keeps segments, too: only one that has been idle for long may be gone.
 *
 * Calls: sluice.explain_ticks, sluice._pipeline_holder.
 */
create or replace function sluice.explain_consumer(log_name text, consumer_name text)
returns table (section text, at timestamptz, cause text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_log constant pgq.queue := pgq._require_log(log_name);
    v_may_read constant boolean := sluice._may_read(format('pgq.event_%s', v_log.queue_id)::regclass);
    v_standing pgq.standing;
    c record;
    p record;
begin
    select s.*
    into v_standing
    from pgq.standing as s
    join pgq.consumer as r on r.co_id = s.sub_consumer
    where s.sub_queue = v_log.queue_id and r.co_name = explain_consumer.consumer_name;
    if not found then
        raise exception using
            errcode = 'PQ002',
            table = v_log.queue_name,
            constraint = coalesce(consumer_name, 'NULL'),
            message = format('consumer %L is not registered on event log %L', consumer_name, v_log.queue_name),
            hint = format('register it with pgq.register_consumer(%L, %L)', v_log.queue_name, consumer_name);
    end if;
    if exists (select from sluice.share_group as g where g.sub_key = v_standing.sub_key) then
        return query select g.* from sluice.explain_group(log_name, consumer_name) as g;
        return;
    end if;
    select l.* into c from sluice.list_consumers(v_log.queue_name) as l where l.consumer_name = explain_consumer.consumer_name;
    select q.kind, q.lake, q.held_by, q.started_at, h.pid is not null as is_running, q.last_commit_at, q.reported_at, q.row_count
    into p
    from sluice.reporting as q
    cross join sluice._pipeline_holder(q.process_id) as h (pid)
    where q.queue_id = v_log.queue_id and q.consumer_name = explain_consumer.consumer_name;

    return query values (
        'state', v_standing.pos_last_time, 'consumer',
        jsonb_build_object(
            'state', case when c.lost is not null then 'lost' when c.open_batch is not null then 'in batch' else 'idle' end,
            'log_name', v_log.queue_name, 'consumer_name', consumer_name, 'last_tick', v_standing.pos_last_tick, 'pipeline', p.kind,
            'batch_id', c.open_batch
        )
    );
    if p.kind is not null then
        return query values (
            'state', p.started_at, 'pipeline',
            jsonb_build_object('is_running', p.is_running, 'kind', p.kind, 'lake', p.lake, 'held_by', p.held_by)
        );
    end if;
    return query values ('history', v_standing.pos_active, 'batch', '{}'::jsonb);
    if p.last_commit_at is not null then
        return query values ('history', p.last_commit_at, 'lake commit', '{}'::jsonb);
    end if;
    if p.reported_at is not null then
        return query values ('history', p.reported_at, 'pipeline report', jsonb_build_object('row_count', p.row_count));
    end if;

    if c.lost is not null then
        return query values ('reason', null::timestamptz, 'position lost', jsonb_build_object('lost', c.lost));
    else
        if not p.is_running then
            return query values ('reason', null::timestamptz, 'pipeline not running', '{}'::jsonb);
        end if;
        if c.open_batch is not null then
            return query values ('reason', clock_timestamp() - make_interval(secs => c.idle_s), 'open batch', '{}'::jsonb);
        end if;
        if c.lag_events > 0 and v_standing.pos_last_seq < (pgq._last_tick(v_log.queue_id)).tick_event_seq then
            return query values (
                'reason', clock_timestamp() - make_interval(secs => c.idle_s), 'consumer lag',
                jsonb_build_object('lag_events', c.lag_events, 'lag_s', c.lag_s, 'idle_s', c.idle_s, 'pinned_bytes', c.pinned_bytes)
            );
        elsif c.open_batch is null then
            return query values ('reason', null::timestamptz, 'up to date', '{}'::jsonb);
        end if;
    end if;
    return query select 'reason', t.* from sluice.explain_ticks(v_log.queue_name) as t;
    return query select 'reason', f.* from sluice._explain_failures(v_log.queue_name, null::text, v_may_read) as f;
    return query values (
        'next', null::timestamptz,
        case
            when c.lost is not null then 'registration'
            when not p.is_running then 'pipeline start'
            when c.open_batch is not null then 'end of batch'
            else 'next batch'
        end,
        '{}'::jsonb
    );
end;
$$;

comment on function sluice.explain_consumer(text, text) is
    'Explain a consumer of a log, also a pipeline into the lake or a share group: its position, and why it has not read the newest events; one row per fact, with the time it refers to, a word for it, and its values.';
revoke execute on function sluice.explain_consumer(text, text) from public;
grant execute on function sluice.explain_consumer(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
