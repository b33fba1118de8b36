-- With the rights of their owner: see pgq._outdated_functions.
create or replace function pgq._drop_log_functions(i_queue_id integer)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_function regprocedure;
begin
    perform from pgq.queue as q where q.queue_id = i_queue_id;
    if found then
        raise exception using
            errcode = 'object_in_use',
            message = format('the functions of event log %s are not dropped: the log exists', i_queue_id),
            hint = 'call pgq.drop_queue() to drop all of it';
    end if;
    for v_function in
        select p.oid::regprocedure
        from pg_proc as p
        where p.pronamespace = 'pgq'::regnamespace
          -- The range is searched by an index; '`' comes before the letters.
          and (
            p.proname > format('tick_%s_`', i_queue_id)::name and p.proname < format('tick_%s_{', i_queue_id)::name
            or p.proname > format('event_%s_`', i_queue_id)::name and p.proname < format('event_%s_{', i_queue_id)::name
          )
    loop
        execute format('drop function %s', v_function);
    end loop;
end;
$$;

comment on function pgq._drop_log_functions(integer) is
    'Drop the functions that read one log''s ticks and events, once the log is gone.';
revoke execute on function pgq._drop_log_functions(integer) from public;
grant execute on function pgq._drop_log_functions(integer) to pgq_admin, sluice_admin;
