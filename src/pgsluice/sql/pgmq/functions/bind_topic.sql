create or replace function pgmq.bind_topic(pattern text, queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq.validate_topic_pattern(pattern);
    if coalesce(queue_name, '') = '' then
        raise exception using
            message = 'queue_name cannot be NULL or empty',
            hint = 'pass the name of the queue that receives the messages';
    end if;
    perform from pgmq.meta as m where m.queue_name = bind_topic.queue_name;
    if not found then
        raise exception using
            table = coalesce(queue_name, 'NULL'),
            datatype = 'QU003',
            message = format('Queue "%s" does not exist. Create the queue first using pgmq.create()', queue_name),
            hint = 'pgmq.list_queues() lists the existing queues; names are case-sensitive';
    end if;

    insert into pgmq.topic_bindings (pattern, queue_name)
    values (bind_topic.pattern, bind_topic.queue_name)
    on conflict on constraint topic_bindings_unique_pattern_queue do nothing;
end;
$$;

comment on function pgmq.bind_topic(text, text) is
    'Bind a queue to a pattern: it receives messages whose routing key matches. Idempotent.';
revoke execute on function pgmq.bind_topic(text, text) from public;
grant execute on function pgmq.bind_topic(text, text) to sluice_admin;
