create or replace function pgmq.create(queue_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._create_queue(queue_name, false);
end;
$$;

comment on function pgmq.create(text) is
    'Create a work queue and its archive; does nothing if the queue exists.';
revoke execute on function pgmq.create(text) from public;
grant execute on function pgmq.create(text) to sluice_admin;
