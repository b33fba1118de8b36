-- The second argument is ignored: pgmq.drop_queue detects partitions itself.
create or replace function public.pgmq_drop_queue(queue_name text, partitioned boolean default false)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgmq.drop_queue(queue_name);
end;
$$;

comment on function public.pgmq_drop_queue(text, boolean) is
    'Drop a work queue with its messages and its archive; false if it does not exist. PGMQ 0.20''s name of pgmq.drop_queue.';
revoke execute on function public.pgmq_drop_queue(text, boolean) from public;
grant execute on function public.pgmq_drop_queue(text, boolean) to sluice_admin;
