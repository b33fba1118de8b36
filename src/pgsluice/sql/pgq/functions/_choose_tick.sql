create or replace function pgq._choose_tick(
    i_queue_id integer, i_position pgq.position_0, i_min_lag interval, i_min_count integer, i_min_interval interval
)
returns pgq.tick
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick pgq.tick;
    v_age interval;
begin
    if i_min_count is null and i_min_interval is null then
        v_tick := pgq._tick_after(i_queue_id, i_position.pos_last_tick);
    else
        select (pgq._find_tick(i_queue_id, f.next_tick_id, false)).*
        into v_tick
        from pgq.find_tick_helper(
            i_queue_id, i_position.pos_last_tick, i_position.pos_last_time, i_position.pos_last_seq, i_min_count::bigint,
            i_min_interval
        ) as f
        where f.next_tick_id is not null;
    end if;
    -- A tick in the future was taken before the clock was set back, so its age is unknown: treat it as old enough.
    v_age := clock_timestamp() - v_tick.tick_time;
    if v_age >= '0' and v_age < i_min_lag then
        return null;
    end if;
    return v_tick;
end;
$$;

comment on function pgq._choose_tick(integer, pgq.position_0, interval, integer, interval) is
    'Return the tick that ends the next batch from a position, as described at next_batch_custom; null fields if there is none.';
revoke execute on function pgq._choose_tick(integer, pgq.position_0, interval, integer, interval) from public;
grant execute on function pgq._choose_tick(integer, pgq.position_0, interval, integer, interval) to pgq_admin, sluice_admin;
