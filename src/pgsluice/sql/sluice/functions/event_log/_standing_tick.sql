-- A retained tick guarantees all events after it. So does the position of a consumer, whose tick may be gone: its unread
-- events are kept.
-- Security definer: positions are not readable by every role.
create or replace function sluice._standing_tick(i_queue_id integer, i_tick_id bigint)
returns pgq.tick
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick pgq.tick := pgq._find_tick(i_queue_id, i_tick_id, false);
begin
    if v_tick.tick_id is null then
        select i_queue_id, s.pos_last_tick, s.pos_last_time, s.pos_last_snapshot, s.pos_last_seq
        into v_tick.tick_queue, v_tick.tick_id, v_tick.tick_time, v_tick.tick_snapshot, v_tick.tick_event_seq
        from pgq.standing as s
        where s.sub_queue = i_queue_id
          and s.pos_last_tick = i_tick_id
          and s.pos_last_snapshot is not null
          and s.pos_lost is null
        limit 1;
    end if;
    return v_tick;
end;
$$;

comment on function sluice._standing_tick(integer, bigint) is
    'Return a tick that a log keeps, or that is a consumer''s position; null fields if the events after it may be gone.';
revoke execute on function sluice._standing_tick(integer, bigint) from public;
grant execute on function sluice._standing_tick(integer, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
