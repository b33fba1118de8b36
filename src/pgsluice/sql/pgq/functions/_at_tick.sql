create or replace function pgq._at_tick(i_position pgq.position_0, i_tick pgq.tick)
returns pgq.position_0
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    i_position.pos_active := clock_timestamp();
    i_position.pos_last_tick := i_tick.tick_id;
    i_position.pos_last_time := i_tick.tick_time;
    i_position.pos_last_seq := i_tick.tick_event_seq;
    i_position.pos_last_snapshot := i_tick.tick_snapshot;
    i_position.pos_batch := null;
    i_position.pos_next_tick := null;
    i_position.pos_next_time := null;
    i_position.pos_next_seq := null;
    i_position.pos_next_snapshot := null;
    i_position.pos_lost := null;
    return i_position;
end;
$$;

comment on function pgq._at_tick(pgq.position_0, pgq.tick) is
    'Return the position after this tick, without an open batch; with a null tick, no position.';
revoke execute on function pgq._at_tick(pgq.position_0, pgq.tick) from public;
grant execute on function pgq._at_tick(pgq.position_0, pgq.tick) to pgq_admin, sluice_admin;
