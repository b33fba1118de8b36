create or replace function public.pgmq_create_partitioned(
    queue_name text,
    partition_interval text default '10000',
    retention_interval text default '100000'
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq.create_partitioned(queue_name, partition_interval, retention_interval, 4);
end;
$$;

comment on function public.pgmq_create_partitioned(text, text, text) is
    'Create a partitioned work queue. PGMQ 0.20''s name of pgmq.create_partitioned.';
revoke execute on function public.pgmq_create_partitioned(text, text, text) from public;
grant execute on function public.pgmq_create_partitioned(text, text, text) to sluice_admin;
