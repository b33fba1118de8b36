create or replace function sluice.list_limit_usage()
returns table (queue_name text, in_flight bigint, started bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits sluice.queue_settings;
    v_now timestamptz := clock_timestamp();
begin
    for v_limits in
        select s.*
        from sluice.queue_settings as s
        where num_nonnulls(s.fleet_concurrency, s.rate) > 0
        order by s.queue_name
    loop
        queue_name := v_limits.queue_name;
        in_flight := null;
        if v_limits.fleet_concurrency is not null then
            in_flight := sluice._in_flight(v_limits.queue_table, v_now, 2147483647);
        end if;
        started := null;
        if v_limits.rate is not null then
            select coalesce(sum(s.started), 0)
            into list_limit_usage.started
            from sluice.queue_start as s
            where s.limits_id = v_limits.limits_id and s.started_at > v_now - v_limits.rate_interval;
        end if;
        return next;
    end loop;
end;
$$;

comment on function sluice.list_limit_usage() is
    'Return the queues with a fleet_concurrency or a rate, by name, with the number of messages in flight, and the number started within rate_interval.';
revoke execute on function sluice.list_limit_usage() from public;
grant execute on function sluice.list_limit_usage() to sluice_admin, sluice_monitor, sluice_reader;
