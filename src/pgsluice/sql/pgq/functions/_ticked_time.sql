-- The difference of two tick times is not the time for which a log was ticked: the clock may have been changed, or the
-- ticker stopped.
create or replace function pgq._ticked_time(i_queue_id integer, i_after_tick bigint, i_gap_max interval)
returns interval
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_time interval;
begin
    execute format(
        'select sum(least(greatest(g.gap, interval ''0''), $2))
         from (select t.tick_time - lag(t.tick_time) over (order by t.tick_id) as gap from pgq.%I as t where t.tick_id >= $1) as g',
        format('tick_%s', i_queue_id)
    )
    using i_after_tick, i_gap_max
    into v_time;
    return coalesce(v_time, '0');
end;
$$;

comment on function pgq._ticked_time(integer, bigint, interval) is
    'Return the time from a tick to the last one; each gap between two ticks counts up to a limit.';
revoke execute on function pgq._ticked_time(integer, bigint, interval) from public;
grant execute on function pgq._ticked_time(integer, bigint, interval) to pgq_admin, sluice_admin;
