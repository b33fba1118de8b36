create or replace function sluice.list_queue_limits()
returns table (
    queue_name text,
    fleet_concurrency integer,
    key_concurrency integer,
    rate integer,
    rate_interval interval,
    when_waiting text,
    priority_weights integer[],
    in_flight bigint,
    started bigint,
    declared_by text
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits sluice.queue_limits;
    v_now timestamptz := clock_timestamp();
begin
    for v_limits in
        select l.* from sluice.queue_limits as l order by l.queue_name
    loop
        queue_name := v_limits.queue_name;
        fleet_concurrency := v_limits.fleet_concurrency;
        key_concurrency := v_limits.key_concurrency;
        rate := v_limits.rate;
        rate_interval := v_limits.rate_interval;
        when_waiting := v_limits.when_waiting;
        priority_weights := v_limits.priority_weights;
        in_flight := null;
        if fleet_concurrency is not null then
            in_flight := sluice._in_flight(v_limits.queue_table, v_now, 2147483647);
        end if;
        started := null;
        if rate is not null then
            select coalesce(sum(s.started), 0)
            into list_queue_limits.started
            from sluice.queue_start as s
            where s.limits_id = v_limits.limits_id and s.started_at > v_now - v_limits.rate_interval;
        end if;
        declared_by := v_limits.declared_by;
        return next;
    end loop;
end;
$$;

comment on function sluice.list_queue_limits() is
    'Return the limits of every queue with limits, by name, with the number in flight if fleet_concurrency is set, the number started within rate_interval if rate is set, and the handler that declared them, null for an operator.';
revoke execute on function sluice.list_queue_limits() from public;
grant execute on function sluice.list_queue_limits() to sluice_admin, sluice_monitor, sluice_reader;
