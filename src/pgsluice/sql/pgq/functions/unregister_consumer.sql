create or replace function pgq.unregister_consumer(x_queue_name text, x_consumer_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_consumer_id integer;
begin
    delete from pgq.subscription as s
    using pgq.queue as q, pgq.consumer as c
    where q.queue_name = x_queue_name
      and c.co_name = x_consumer_name
      and s.sub_queue = q.queue_id
      and s.sub_consumer = c.co_id
    returning c.co_id into v_consumer_id;
    if not found then
        return 0;
    end if;

    -- A name without a subscription is of no use. The lock waits for a registration that just found the name.
    perform from pgq.consumer as c where c.co_id = v_consumer_id for update;
    delete from pgq.consumer as c
    where c.co_id = v_consumer_id
      and not exists (select from pgq.subscription as s where s.sub_consumer = v_consumer_id);
    return 1;
end;
$$;

comment on function pgq.unregister_consumer(text, text) is
    'Remove a consumer''s subscription; returns how many were removed, 0 or 1.';
revoke execute on function pgq.unregister_consumer(text, text) from public;
grant execute on function pgq.unregister_consumer(text, text) to sluice_admin, sluice_reader;
