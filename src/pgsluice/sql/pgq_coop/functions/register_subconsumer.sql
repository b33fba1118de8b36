create or replace function pgq_coop.register_subconsumer(i_queue_name text, i_consumer_name text, i_subconsumer_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name text := i_consumer_name || '.' || i_subconsumer_name;
    v_main pgq.subscriber;
    v_member pgq.subscriber;
    v_consumer_id integer;
    v_position pgq.position_0;
begin
    if i_subconsumer_name is null then
        raise exception using
            errcode = '22004',
            message = 'subconsumer name is null',
            hint = 'pass the name of the subconsumer';
    end if;
    perform pgq.register_consumer(i_queue_name, i_consumer_name);
    select s.* into v_main
    from pgq.subscriber as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = i_queue_name
      and c.co_name = i_consumer_name
    for no key update of s;
    perform pgq._refuse_group(v_main.sub_key);
    if v_main.sub_main is not null then
        raise exception using
            errcode = 'PQ004',
            message = format('consumer %s on queue %s is a subconsumer', i_consumer_name, i_queue_name),
            hint = 'pass the name of the main consumer';
    end if;

    v_consumer_id := pgq._consumer_id(v_name);
    select s.* into v_member
    from pgq.subscriber as s
    where s.sub_queue = v_main.sub_queue and s.sub_consumer = v_consumer_id;
    if found and v_member.sub_main is distinct from v_main.sub_key then
        raise exception using
            errcode = 'PQ004',
            message = format('consumer %s on queue %s is no subconsumer of %s', v_name, i_queue_name, i_consumer_name),
            detail = 'It is registered on its own.',
            hint = 'choose another name for the subconsumer';
    elsif found then
        return 0;
    end if;
    -- A retried event may go to any member: retries belong to the group, whose members share the sub_id.
    insert into pgq.subscriber (sub_id, sub_queue, sub_consumer, sub_main)
    values (v_main.sub_id, v_main.sub_queue, v_consumer_id, v_main.sub_key)
    returning * into v_member;
    v_position.pos_subscriber := v_member.sub_key;
    perform pgq._move(v_member.sub_ledger, pgq._at_tick(v_position, null::pgq.tick));
    return 1;
end;
$$;

comment on function pgq_coop.register_subconsumer(text, text, text) is
    'Add a subconsumer to a consumer, which is registered if it is new; returns 1 if added, 0 if it exists.';
revoke execute on function pgq_coop.register_subconsumer(text, text, text) from public;
grant execute on function pgq_coop.register_subconsumer(text, text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
