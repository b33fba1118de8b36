create or replace function pgq._remove_subscribers(i_sub_keys integer[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_consumers integer[];
begin
    delete from pgq.position_0 as p where p.pos_subscriber = any (i_sub_keys);
    delete from pgq.position_1 as p where p.pos_subscriber = any (i_sub_keys);
    v_consumers := array(select s.sub_consumer from pgq.subscriber as s where s.sub_key = any (i_sub_keys));
    delete from pgq.subscriber as s where s.sub_key = any (i_sub_keys);

    -- A name without a subscription is of no use. The lock waits for a registration that just found the name.
    perform from pgq.consumer as c where c.co_id = any (v_consumers) order by c.co_id for update;
    delete from pgq.consumer as c
    where c.co_id = any (v_consumers)
      and not exists (select from pgq.subscriber as s where s.sub_consumer = c.co_id);
end;
$$;

comment on function pgq._remove_subscribers(integer[]) is
    'Remove subscribers that are locked, with their positions and with names that nothing else uses.';
revoke execute on function pgq._remove_subscribers(integer[]) from public;
grant execute on function pgq._remove_subscribers(integer[]) to pgq_admin, sluice_admin;
