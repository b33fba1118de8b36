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
        sluice._pipeline_holder(p.process_id) is not null, p.started_at, p.held_by, p.last_commit_at, p.row_count, c.lag_events,
        c.lag_s, p.reported_at
    from sluice.reporting as p
    -- Only of logs with pipelines: a database can have thousands of others.
    cross join lateral sluice.list_consumers((select q.queue_name from pgq.queue as q where q.queue_id = p.queue_id)) as c
    where p.queue_id is not null
      and c.consumer_name = p.consumer_name and (c.last_tick is not null or c.lost is not null)
    order by c.log_name, p.consumer_name;
$$;

comment on function sluice.list_pipelines() is
    'Return the pipelines from event logs into the lake whose consumer is registered, with their progress and lag.';
revoke execute on function sluice.list_pipelines() from public;
grant execute on function sluice.list_pipelines()
to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
