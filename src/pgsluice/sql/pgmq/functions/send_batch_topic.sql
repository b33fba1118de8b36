create or replace function pgmq.send_batch_topic(
    routing_key text, msgs jsonb[], headers jsonb[], delay timestamptz
)
returns table (queue_name text, msg_id bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name text;
begin
    perform pgmq.validate_routing_key(routing_key);
    perform pgmq._validate_batch_params(msgs, headers);
    for v_queue_name in
        select distinct b.queue_name
        from pgmq.topic_bindings as b
        where routing_key ~ b.compiled_regex
        order by b.queue_name
    loop
        return query
            select v_queue_name, sent.msg_id
            from pgmq.send_batch(v_queue_name, msgs, headers, delay) as sent (msg_id);
    end loop;
end;
$$;

comment on function pgmq.send_batch_topic(text, jsonb[], jsonb[], timestamptz) is
    'Send messages to every queue bound to the routing key, visible from the given time; returns their ids by queue name.';
revoke execute on function pgmq.send_batch_topic(text, jsonb[], jsonb[], timestamptz) from public;
grant execute on function pgmq.send_batch_topic(text, jsonb[], jsonb[], timestamptz) to sluice_admin, sluice_writer;

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[])
returns table (queue_name text, msg_id bigint)
language sql
set search_path = pg_catalog, pg_temp
as $$
    select * from pgmq.send_batch_topic(routing_key, msgs, null::jsonb[], now());
$$;

comment on function pgmq.send_batch_topic(text, jsonb[]) is
    'Send messages to every queue bound to the routing key; returns their ids.';
revoke execute on function pgmq.send_batch_topic(text, jsonb[]) from public;
grant execute on function pgmq.send_batch_topic(text, jsonb[]) to sluice_admin, sluice_writer;

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[])
returns table (queue_name text, msg_id bigint)
language sql
set search_path = pg_catalog, pg_temp
as $$
    select * from pgmq.send_batch_topic(routing_key, msgs, headers, now());
$$;

comment on function pgmq.send_batch_topic(text, jsonb[], jsonb[]) is
    'Send messages with headers to every queue bound to the routing key; returns their ids.';
revoke execute on function pgmq.send_batch_topic(text, jsonb[], jsonb[]) from public;
grant execute on function pgmq.send_batch_topic(text, jsonb[], jsonb[]) to sluice_admin, sluice_writer;

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], delay integer)
returns table (queue_name text, msg_id bigint)
language sql
set search_path = pg_catalog, pg_temp
as $$
    select * from pgmq.send_batch_topic(routing_key, msgs, null::jsonb[], pgmq._visible_from(delay));
$$;

comment on function pgmq.send_batch_topic(text, jsonb[], integer) is
    'Send messages to every queue bound to the routing key, visible after delay seconds; returns their ids.';
revoke execute on function pgmq.send_batch_topic(text, jsonb[], integer) from public;
grant execute on function pgmq.send_batch_topic(text, jsonb[], integer) to sluice_admin, sluice_writer;

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], delay timestamptz)
returns table (queue_name text, msg_id bigint)
language sql
set search_path = pg_catalog, pg_temp
as $$
    select * from pgmq.send_batch_topic(routing_key, msgs, null::jsonb[], delay);
$$;

comment on function pgmq.send_batch_topic(text, jsonb[], timestamptz) is
    'Send messages to every queue bound to the routing key, visible from the given time; returns their ids.';
revoke execute on function pgmq.send_batch_topic(text, jsonb[], timestamptz) from public;
grant execute on function pgmq.send_batch_topic(text, jsonb[], timestamptz) to sluice_admin, sluice_writer;

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[], delay integer)
returns table (queue_name text, msg_id bigint)
language sql
set search_path = pg_catalog, pg_temp
as $$
    select * from pgmq.send_batch_topic(routing_key, msgs, headers, pgmq._visible_from(delay));
$$;

comment on function pgmq.send_batch_topic(text, jsonb[], jsonb[], integer) is
    'Send messages with headers to every queue bound to the routing key, visible after delay seconds; returns their ids.';
revoke execute on function pgmq.send_batch_topic(text, jsonb[], jsonb[], integer) from public;
grant execute on function pgmq.send_batch_topic(text, jsonb[], jsonb[], integer) to sluice_admin, sluice_writer;
