create or replace function public.pgmq_list_queues()
returns table (queue_name text, created_at timestamptz)
language sql
set search_path = pg_catalog, pg_temp
as $$
    select listed.queue_name::text, listed.created_at
    from pgmq.list_queues() as listed
    order by listed.queue_name;
$$;

comment on function public.pgmq_list_queues() is
    'List all work queues by name. PGMQ 0.20''s name of pgmq.list_queues.';
revoke execute on function public.pgmq_list_queues() from public;
grant execute on function public.pgmq_list_queues() to sluice_admin, sluice_reader, sluice_monitor;
