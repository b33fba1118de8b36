create or replace function pgq.unregister_consumer(x_queue_name text, x_consumer_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_subscriber record;
    v_sub_keys integer[];
begin
    select s.sub_key, s.sub_id, s.sub_main
    into v_subscriber
    from pgq.subscriber as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = x_queue_name
      and c.co_name = x_consumer_name
    for update of s;
    if not found then
        return 0;
    end if;

    perform pgq._refuse_group(v_subscriber.sub_key);
    -- The main consumer is locked, so no member can join: registering one locks it first.
    v_sub_keys := v_subscriber.sub_key || array(
        select s.sub_key from pgq.subscriber as s where s.sub_main = v_subscriber.sub_key order by s.sub_key for update
    );
    perform pgq._remove_subscribers(v_sub_keys);
    -- Queued retries of this consumer, unless subconsumers share them.
    delete from pgq.retry_entry as e
    where e.ev_owner = v_subscriber.sub_id
      and not exists (select from pgq.subscriber as s where s.sub_id = v_subscriber.sub_id);
    perform sluice.note_action(
        'unregister_consumer'::text, x_queue_name, jsonb_build_object('consumer_name', x_consumer_name), null::bigint, null::text
    );
    return cardinality(v_sub_keys);
end;
$$;

comment on function pgq.unregister_consumer(text, text) is
    'Remove a consumer''s subscription and those of its subconsumers; returns how many were removed.';
revoke execute on function pgq.unregister_consumer(text, text) from public;
grant execute on function pgq.unregister_consumer(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
