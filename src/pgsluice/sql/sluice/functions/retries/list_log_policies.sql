create or replace function sluice.list_log_policies(
    out queue_name text, out max_lag_bytes bigint, out max_lag_events bigint, out max_lag_time interval, out keepers text[]
)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select q.queue_name, p.max_lag_bytes, p.max_lag_events, p.max_lag_time, coalesce(p.keepers, '{}')
    from pgq.queue as q
    left join sluice.log_policy as p on p.queue_id = q.queue_id
    order by q.queue_name;
$$;

comment on function sluice.list_log_policies() is
    'Return the lag policy of each event log; without limits it keeps all events for its consumers.';
revoke execute on function sluice.list_log_policies() from public;
grant execute on function sluice.list_log_policies() to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
