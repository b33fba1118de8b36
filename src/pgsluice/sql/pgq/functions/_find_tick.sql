create or replace function pgq._find_tick(i_queue_id integer, i_tick_id bigint)
returns pgq.tick
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick pgq.tick := pgq._tick_after(i_queue_id, i_tick_id - 1);
begin
    if v_tick.tick_id <> i_tick_id then
        return null;
    end if;
    return v_tick;
end;
$$;

comment on function pgq._find_tick(integer, bigint) is
    'Return a tick of a log by its number; null fields if the log has not kept it.';
revoke execute on function pgq._find_tick(integer, bigint) from public;
grant execute on function pgq._find_tick(integer, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
