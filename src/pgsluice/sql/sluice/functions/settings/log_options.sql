create or replace function sluice.log_options(log_name text default null)
returns setof sluice.log_settings
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id constant integer := case when log_name is not null then (pgq._require_log(log_name)).queue_id end;
begin
    return query
        select q.queue_name, q.queue_ticker_max_count, q.queue_ticker_max_lag, q.queue_ticker_idle_period, q.queue_ticker_paused,
            q.queue_rotation_period, q.queue_external_ticker, p.max_lag_bytes, p.max_lag_events, p.max_lag_time,
            coalesce(p.keepers, '{}')
        from pgq.queue as q
        left join sluice.log_policy as p on p.queue_id = q.queue_id
        where v_queue_id is null or q.queue_id = v_queue_id
        order by q.queue_name;
end;
$$;

comment on function sluice.log_options(text) is
    'Return the options of one event log or of all, by name; without a max_lag it keeps all events for its consumers.';
revoke execute on function sluice.log_options(text) from public;
grant execute on function sluice.log_options(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
