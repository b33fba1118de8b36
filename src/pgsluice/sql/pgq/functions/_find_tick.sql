create or replace function pgq._find_tick(i_queue_id integer, i_tick_id bigint, i_is_required boolean)
returns pgq.tick
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick pgq.tick := pgq._tick_after(i_queue_id, i_tick_id - 1);
begin
    if v_tick.tick_id = i_tick_id then
        return v_tick;
    end if;
    if i_is_required and i_tick_id is not null then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot reposition, tick not found: %s', i_tick_id),
            detail = (select format('The event log is %L.', q.queue_name) from pgq.queue as q where q.queue_id = i_queue_id),
            hint = 'choose a tick that is still in pgq.tick';
    end if;
    return null;
end;
$$;

comment on function pgq._find_tick(integer, bigint, boolean) is
    'Return a tick of a log; null fields if the log does not keep it, or an error if it is required. A null number is null fields.';
revoke execute on function pgq._find_tick(integer, bigint, boolean) from public;
grant execute on function pgq._find_tick(integer, bigint, boolean) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
