create or replace function pgmq.send_topic(routing_key text, msg jsonb, headers jsonb, delay integer)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name text;
    v_sent integer := 0;
begin
    perform pgmq.validate_routing_key(routing_key);
    if msg is null then
        raise exception using
            message = 'msg cannot be NULL',
            hint = 'send the JSON value null instead';
    end if;
    if delay < 0 then
        raise exception using
            message = format('delay cannot be negative, got: %s', delay),
            hint = 'use 0 or more seconds';
    end if;

    for v_queue_name in
        select distinct b.queue_name
        from pgmq.topic_bindings as b
        where routing_key ~ b.compiled_regex
        order by b.queue_name
    loop
        perform pgmq.send(v_queue_name, msg, headers, delay);
        v_sent := v_sent + 1;
    end loop;
    return v_sent;
end;
$$;

comment on function pgmq.send_topic(text, jsonb, jsonb, integer) is
    'Send one message to every queue bound to its routing key, once to each; returns the number of queues.';
revoke execute on function pgmq.send_topic(text, jsonb, jsonb, integer) from public;
grant execute on function pgmq.send_topic(text, jsonb, jsonb, integer) to sluice_admin, sluice_writer;

create or replace function pgmq.send_topic(routing_key text, msg jsonb)
returns integer
language sql
set search_path = pg_catalog, pg_temp
as $$
    select pgmq.send_topic(routing_key, msg, null::jsonb, 0);
$$;

comment on function pgmq.send_topic(text, jsonb) is
    'Send one message to every queue bound to its routing key; returns the number of queues.';
revoke execute on function pgmq.send_topic(text, jsonb) from public;
grant execute on function pgmq.send_topic(text, jsonb) to sluice_admin, sluice_writer;

create or replace function pgmq.send_topic(routing_key text, msg jsonb, delay integer)
returns integer
language sql
set search_path = pg_catalog, pg_temp
as $$
    select pgmq.send_topic(routing_key, msg, null::jsonb, delay);
$$;

comment on function pgmq.send_topic(text, jsonb, integer) is
    'Send one message to every queue bound to its routing key, visible after delay seconds; returns the number of queues.';
revoke execute on function pgmq.send_topic(text, jsonb, integer) from public;
grant execute on function pgmq.send_topic(text, jsonb, integer) to sluice_admin, sluice_writer;
