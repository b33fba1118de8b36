create or replace function pgmq.list_queues()
returns setof pgmq.queue_record
language sql
set search_path = pg_catalog, pg_temp
as $$
    select m.queue_name, m.is_partitioned, m.is_unlogged, m.created_at
    from pgmq.meta as m
    order by m.queue_name;
$$;

comment on function pgmq.list_queues() is 'List all work queues by name.';
revoke execute on function pgmq.list_queues() from public;
grant execute on function pgmq.list_queues() to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
