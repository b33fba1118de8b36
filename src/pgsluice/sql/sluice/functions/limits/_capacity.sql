/*
 * The free capacity at a time: that of fleet_concurrency, and that of the rate limit in the rate_interval before it. So no
 * interval of this length contains more starts than rate.
 *
 * at is the time of the claim: not before the last one of the ledger, also if the clock was set back a little, as by a
 * failover. If it was set back by more than an interval, the ledger is reset: else the queue would be blocked until the
 * recorded time.
 *
 * before is the running total of the ledger, free_at the time at which the rate has capacity again. Calls: sluice._in_flight.
 */
create or replace function sluice._capacity(
    i_limits sluice.queue_settings, now timestamptz, out capacity bigint, out before bigint, out at timestamptz, out free_at timestamptz
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_last sluice.queue_start;
    v_first sluice.queue_start;
begin
    capacity := 2147483647;
    at := now;
    if i_limits.rate is not null then
        before := 0;
        select s.*
        into v_last
        from sluice.queue_start as s
        where s.limits_id = i_limits.limits_id
        order by s.started_at desc, s.before desc
        limit 1;
        if v_last.started_at > now + i_limits.rate_interval then
            delete from sluice.queue_start as s where s.limits_id = i_limits.limits_id;
        elsif found then
            at := greatest(now, v_last.started_at);
            before := v_last.before + v_last.started;
            select s.*
            into v_first
            from sluice.queue_start as s
            where s.limits_id = i_limits.limits_id and s.started_at > at - i_limits.rate_interval
            order by s.started_at, s.before
            limit 1;
        end if;
        capacity := i_limits.rate - (before - coalesce(v_first.before, before));
        free_at := case when capacity <= 0 then v_first.started_at + i_limits.rate_interval end;
    end if;
    if i_limits.fleet_concurrency is not null and capacity > 0 then
        capacity := least(
            capacity,
            i_limits.fleet_concurrency - sluice._in_flight(i_limits.queue_table, at, i_limits.fleet_concurrency)
        );
    end if;
end;
$$;

comment on function sluice._capacity(sluice.queue_settings, timestamptz) is
    'Return the number of further messages that the limits of a queue allow to claim now.';
revoke execute on function sluice._capacity(sluice.queue_settings, timestamptz) from public;
grant execute on function sluice._capacity(sluice.queue_settings, timestamptz) to sluice_admin, sluice_reader;
