-- Volatile: sluice.list_consumers reads positions after it has locked them.
create or replace function sluice.list_pipelines()
returns table (
    log_name text, consumer_name text, kind text, lake text, is_running boolean, held_since timestamptz, held_by text,
    last_commit_at timestamptz, row_count bigint, lag_events bigint, lag_s double precision, reported_at timestamptz
)
language sql
volatile
set search_path = pg_catalog, pg_temp
as $$
    select c.log_name, p.consumer_name, p.kind, p.lake,
        sluice._pipeline_holder(p.queue_id, p.consumer_name) is not null, p.held_since, p.held_by,
        r.last_commit_at, r.row_count, c.lag_events,
        -- Ticks of an idle log are not lag.
        case when c.lag_events = 0 then 0 else c.lag_s end,
        r.reported_at
    from sluice.pipeline as p
    join pgq.queue as q on q.queue_id = p.queue_id
    -- Only of logs with pipelines: a database can have thousands of others.
    cross join lateral sluice.list_consumers(q.queue_name) as c
    left join lateral (
        select newest.*
        from sluice.pipeline_report as newest
        where newest.pipeline_id = p.pipeline_id
        order by newest.report_id desc
        limit 1
    ) as r on true
    where c.consumer_name = p.consumer_name and (c.last_tick is not null or c.lost is not null)
    order by c.log_name, p.consumer_name;
$$;

comment on function sluice.list_pipelines() is
    'Return the pipelines from event logs into the lake whose consumer is registered, with their progress, and their lag up to the newest tick.';
revoke execute on function sluice.list_pipelines() from public;
grant execute on function sluice.list_pipelines()
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
