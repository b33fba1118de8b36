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
            hint = 'choose a tick that is still in pgq.tick';
    end if;
    return v_tick;
end;
$$;

comment on function pgq._kept_tick(integer, bigint) is
    'Return a tick of a log by its number, for a position; raise an error if the log has not kept it. Null fields for null.';
revoke execute on function pgq._kept_tick(integer, bigint) from public;
grant execute on function pgq._kept_tick(integer, bigint) to pgq_admin, sluice_admin;
