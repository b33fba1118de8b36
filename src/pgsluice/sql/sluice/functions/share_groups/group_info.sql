create or replace function sluice.group_info(
    inout queue_name text, inout group_name text,
    out lease interval, out max_attempts integer, out max_deliveries integer,
    out backoff text, out backoff_base interval, out backoff_cap interval, out backoff_jitter boolean,
    out key text, out when_waiting text, out unhandled text, out lost text,
    out lag_events bigint, out lag_s double precision, out leased bigint, out retrying bigint, out dead bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    select g.lease, g.max_attempts, g.max_deliveries, g.backoff, g.backoff_base, g.backoff_cap, g.backoff_jitter,
        g.key, g.when_waiting, g.unhandled, g.lost, s.lag_events, s.lag_s, s.leased, s.retrying, s.dead
    into lease, max_attempts, max_deliveries, backoff, backoff_base, backoff_cap, backoff_jitter,
        key, when_waiting, unhandled, lost, lag_events, lag_s, leased, retrying, dead
    from sluice._require_group(group_info.queue_name, group_info.group_name) as g
    cross join lateral sluice._group_state(g, group_info.queue_name) as s;
end;
$$;

comment on function sluice.group_info(text, text) is
    'Return the settings of a share group, its lag in events and in seconds of the oldest one, and its numbers of leased, retrying and dead-lettered events; dead letters are counted up to 10,000.';
revoke execute on function sluice.group_info(text, text) from public;
grant execute on function sluice.group_info(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
