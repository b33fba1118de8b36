create or replace function pgmq.list_topic_bindings()
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select b.pattern, b.queue_name, b.bound_at, b.compiled_regex
    from pgmq.topic_bindings as b
    order by b.bound_at desc, b.pattern, b.queue_name;
$$;

comment on function pgmq.list_topic_bindings() is
    'List all bindings, the latest first.';
revoke execute on function pgmq.list_topic_bindings() from public;
grant execute on function pgmq.list_topic_bindings() to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;

create or replace function pgmq.list_topic_bindings(queue_name text)
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select b.pattern, b.queue_name, b.bound_at, b.compiled_regex
    from pgmq.topic_bindings as b
    where b.queue_name = list_topic_bindings.queue_name
    order by b.bound_at desc, b.pattern;
$$;

comment on function pgmq.list_topic_bindings(text) is
    'List the bindings of one queue, the latest first.';
revoke execute on function pgmq.list_topic_bindings(text) from public;
grant execute on function pgmq.list_topic_bindings(text) to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
