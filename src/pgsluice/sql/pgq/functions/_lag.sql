-- By the ticks, not by the clock: while nobody ticks, no consumer falls behind. Bytes: what of the log's older segments could be
-- emptied if this consumer were not there, or at least not before it moves.
create or replace function pgq._lag(
    i_queue_id integer, i_position pgq.position_0, i_segments integer[],
    out lag_events bigint, out lag_time interval, out pinned_bytes bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_last pgq.tick := pgq._last_tick(i_queue_id);
begin
    lag_events := greatest(v_last.tick_event_seq - i_position.pos_last_seq, 0);
    lag_time := greatest(v_last.tick_time - i_position.pos_last_time, '0');
    select coalesce(sum(pg_total_relation_size(format('pgq.event_%s_%s', i_queue_id, s.number)::regclass)), 0)
    into pinned_bytes
    from unnest(i_segments) as s (number)
    cross join lateral pgq._segment_span(i_queue_id, s.number) as span
    where i_position.pos_lost is null
      and i_position.pos_last_tick < span.last_tick;
end;
$$;

comment on function pgq._lag(integer, pgq.position_0, integer[]) is
    'How far a position is behind the newest tick, in events and time, and the bytes of those of the segments that wait for it.';
revoke execute on function pgq._lag(integer, pgq.position_0, integer[]) from public;
grant execute on function pgq._lag(integer, pgq.position_0, integer[]) to pgq_admin, sluice_admin;
