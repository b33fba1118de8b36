create or replace function pgq._refuse_lost(i_sub_key integer, i_reason text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_of record;
begin
    if i_reason is null then
        return;
    end if;
    select q.queue_id, q.queue_name, c.co_name, main.co_name as main_name, s.sub_is_group
    into v_of
    from pgq.subscriber as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    left join pgq.subscriber as m on m.sub_key = s.sub_main
    left join pgq.consumer as main on main.co_id = m.sub_consumer
    where s.sub_key = i_sub_key;
    raise exception using
        errcode = 'PQ006',
        message = format('position of consumer %s on queue %s was lost: %s', v_of.co_name, v_of.queue_name, i_reason),
        detail = 'Events that it has not read may be gone.',
        hint = case
            when v_of.sub_is_group then
                format(
                    'create the share group anew at a tick that is kept: sluice.drop_group(%L, %L), which drops its retries, and '
                    'sluice.create_group() with the option start', v_of.queue_name, v_of.co_name
                )
            when v_of.main_name is null then
                format(
                    'move it to a tick, such as the oldest one that is kept: pgq.register_consumer_at(%L, %L, %s)', v_of.queue_name,
                    v_of.co_name, (pgq._tick_after(v_of.queue_id, 0::bigint)).tick_id
                )
            else format(
                'remove the subconsumer with pgq_coop.unregister_subconsumer(%L, %L, %L, 1)',
                v_of.queue_name, v_of.main_name, substr(v_of.co_name, length(v_of.main_name) + 2)
            )
        end;
end;
$$;

comment on function pgq._refuse_lost(integer, text) is
    'Raise an error if a subscriber''s position was given up or lost; the reason is null if it was not.';
revoke execute on function pgq._refuse_lost(integer, text) from public;
grant execute on function pgq._refuse_lost(integer, text) to pgq_admin, sluice_admin;
