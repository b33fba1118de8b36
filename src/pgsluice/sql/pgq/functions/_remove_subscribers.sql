create or replace function pgq._remove_subscribers(i_sub_keys integer[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_consumers integer[];
    v_owners integer[];
begin
    delete from pgq.position_0 as p where p.pos_subscriber = any (i_sub_keys);
    delete from pgq.position_1 as p where p.pos_subscriber = any (i_sub_keys);
    select array_agg(s.sub_consumer), array_agg(s.sub_id)
    into v_consumers, v_owners
    from pgq.subscriber as s
    where s.sub_key = any (i_sub_keys);
    delete from pgq.subscriber as s where s.sub_key = any (i_sub_keys);

    -- Their queued retries, unless other members of the group share them.
    delete from pgq.retry_entry as e
    where e.ev_owner = any (v_owners)
      and not exists (select from pgq.subscriber as s where s.sub_id = e.ev_owner);

    -- Names without a subscription are removed. The lock waits for a registration that just found the name.
    perform from pgq.consumer as c where c.co_id = any (v_consumers) order by c.co_id for update;
    delete from pgq.consumer as c
    where c.co_id = any (v_consumers)
      and not exists (select from pgq.subscriber as s where s.sub_consumer = c.co_id);
end;
$$;

comment on function pgq._remove_subscribers(integer[]) is
    'Remove locked subscribers with their positions, and consumer names without other subscriptions.';
revoke execute on function pgq._remove_subscribers(integer[]) from public;
grant execute on function pgq._remove_subscribers(integer[]) to pgq_admin, sluice_admin;
