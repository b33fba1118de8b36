create or replace function pgq._last_tick(i_queue_id integer)
returns pgq.tick
language plpgsql
stable
security definer -- every role may read ticks, but not call this log's function
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick pgq.tick;
begin
    execute format('select t.* from pgq.%I() as t', format('tick_%s_last', i_queue_id)) into v_tick;
    return v_tick;
end;
$$;

comment on function pgq._last_tick(integer) is
    'Return the newest tick of a log; null fields if there is none.';
revoke execute on function pgq._last_tick(integer) from public;
grant execute on function pgq._last_tick(integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
