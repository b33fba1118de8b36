create or replace function pgq._kept_tick(i_queue_id integer, i_tick_id bigint)
returns pgq.tick
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick pgq.tick;
begin
    v_tick := pgq._find_tick(i_queue_id, i_tick_id);
    if v_tick.tick_id is null and i_tick_id is not null then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot reposition, tick not found: %s', i_tick_id),
            detail = (select format('The event log is %L.', q.queue_name) from pgq.queue as q where q.queue_id = i_queue_id),
            hint = 'choose one of the ticks that pgq.tick still has';
    end if;
    return v_tick;
end;
$$;

comment on function pgq._kept_tick(integer, bigint) is
    'A tick of a log by its number, for a position; raises when the log does not keep it. Null fields for null.';
revoke execute on function pgq._kept_tick(integer, bigint) from public;
grant execute on function pgq._kept_tick(integer, bigint) to pgq_admin, sluice_admin;
