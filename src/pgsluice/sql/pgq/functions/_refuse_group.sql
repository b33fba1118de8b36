create or replace function pgq._refuse_group(i_sub_key integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_of record;
begin
    select q.queue_name, c.co_name
    into v_of
    from pgq.subscriber as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where s.sub_key = i_sub_key and s.sub_is_group;
    if found then
        raise exception using
            errcode = 'PQ004',
            message = format('consumer %s on queue %s is a share group', v_of.co_name, v_of.queue_name),
            detail = 'Its position follows from its claims and acknowledgements.',
            hint = format(
                'claim its events with sluice.claim(%1$L, %2$L), or drop it with sluice.drop_group(%1$L, %2$L)', v_of.queue_name, v_of.co_name
            );
    end if;
end;
$$;

comment on function pgq._refuse_group(integer) is
    'Raise an error if a subscriber is a share group, whose position cannot be set.';
revoke execute on function pgq._refuse_group(integer) from public;
grant execute on function pgq._refuse_group(integer) to pgq_admin, sluice_admin;
