create or replace function pgq.unregister_consumer(x_queue_name text, x_consumer_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_subscriber record;
begin
    delete from pgq.subscriber as s
    using pgq.queue as q, pgq.consumer as c
    where q.queue_name = x_queue_name
      and c.co_name = x_consumer_name
      and s.sub_queue = q.queue_id
      and s.sub_consumer = c.co_id
    returning s.sub_key, s.sub_id, s.sub_consumer into v_subscriber;
    if not found then
        return 0;
    end if;

    delete from pgq.position_0 as p where p.pos_subscriber = v_subscriber.sub_key;
    delete from pgq.position_1 as p where p.pos_subscriber = v_subscriber.sub_key;
    -- Events that were to come again to this consumer, unless cooperative consumers share them.
    delete from pgq.retry_entry as e
    where e.ev_owner = v_subscriber.sub_id
      and not exists (select from pgq.subscriber as s where s.sub_id = v_subscriber.sub_id);

    -- A name without a subscription is of no use. The lock waits for a registration that just found the name.
    perform from pgq.consumer as c where c.co_id = v_subscriber.sub_consumer for update;
    delete from pgq.consumer as c
    where c.co_id = v_subscriber.sub_consumer
      and not exists (select from pgq.subscriber as s where s.sub_consumer = v_subscriber.sub_consumer);
    return 1;
end;
$$;

comment on function pgq.unregister_consumer(text, text) is
    'Remove a consumer''s subscription; returns how many were removed, 0 or 1.';
revoke execute on function pgq.unregister_consumer(text, text) from public;
grant execute on function pgq.unregister_consumer(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
