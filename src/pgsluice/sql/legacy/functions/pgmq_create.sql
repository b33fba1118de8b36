create or replace function public.pgmq_create(queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq.create(queue_name);
end;
$$;

comment on function public.pgmq_create(text) is
    'Create a work queue and its archive; does nothing if the queue exists. PGMQ 0.20''s name of pgmq.create.';
revoke execute on function public.pgmq_create(text) from public;
grant execute on function public.pgmq_create(text) to sluice_admin;
