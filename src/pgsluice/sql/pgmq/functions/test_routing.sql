create or replace function pgmq.test_routing(routing_key text)
returns table (pattern text, queue_name text, compiled_regex text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq.validate_routing_key(routing_key);
    return query
        select b.pattern, b.queue_name, b.compiled_regex
        from pgmq.topic_bindings as b
        where routing_key ~ b.compiled_regex
        order by b.pattern, b.queue_name;
end;
$$;

comment on function pgmq.test_routing(text) is
    'List the bindings that match a routing key, by pattern; sends nothing.';
revoke execute on function pgmq.test_routing(text) from public;
grant execute on function pgmq.test_routing(text) to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
