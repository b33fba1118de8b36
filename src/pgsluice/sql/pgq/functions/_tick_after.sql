create or replace function pgq._tick_after(i_queue_id integer, i_tick_id bigint)
returns pgq.tick
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick pgq.tick;
begin
    execute format('select t.* from pgq.%I as t where t.tick_id > $1 order by t.tick_id limit 1', 'tick_' || i_queue_id)
    using i_tick_id
    into v_tick;
    return v_tick;
end;
$$;

comment on function pgq._tick_after(integer, bigint) is
    'The first tick of a log after a tick; null fields when there is none.';
revoke execute on function pgq._tick_after(integer, bigint) from public;
grant execute on function pgq._tick_after(integer, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
