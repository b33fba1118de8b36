create or replace function pgq.register_consumer(x_queue_name text, x_consumer_id text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_consumer_id integer;
    v_tick_id bigint;
begin
    -- Shared with other registrations, but not with drop_queue.
    select q.queue_id into v_queue_id from pgq.queue as q where q.queue_name = x_queue_name for key share;
    if not found then
        raise exception using
            errcode = 'PQ001',
            message = 'Event queue not created yet',
            detail = format('There is no event log %L.', x_queue_name),
            hint = format('create it with pgq.create_queue(%L)', x_queue_name);
    end if;
    if x_consumer_id is null then
        raise exception using
            errcode = '22004',
            message = 'consumer name is null',
            hint = 'give the consumer a name';
    end if;

    -- Twice the same name at once: the second waits for the first and then finds its row.
    insert into pgq.consumer (co_name) values (x_consumer_id) on conflict (co_name) do nothing;
    select c.co_id into v_consumer_id from pgq.consumer as c where c.co_name = x_consumer_id for key share;

    select t.tick_id
    into v_tick_id
    from pgq.tick as t
    where t.tick_queue = v_queue_id
    order by t.tick_id desc
    limit 1;
    if not found then
        raise exception using
            errcode = 'PQ004',
            message = 'No ticks for this queue.  Please run ticker on database.',
            detail = format('The event log is %L.', x_queue_name),
            hint = 'call pgq.ticker() first';
    end if;

    insert into pgq.subscription (sub_queue, sub_consumer, sub_last_tick)
    values (v_queue_id, v_consumer_id, v_tick_id)
    on conflict (sub_queue, sub_consumer) do nothing;
    return case when found then 1 else 0 end;
end;
$$;

comment on function pgq.register_consumer(text, text) is
    'Subscribe a consumer from the latest tick on; 1 when new, 0 when it was there already.';
revoke execute on function pgq.register_consumer(text, text) from public;
grant execute on function pgq.register_consumer(text, text) to sluice_admin, sluice_reader;
