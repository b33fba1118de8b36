create or replace function pgmq.create_non_partitioned(queue_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._create_queue(queue_name, false);
end;
$$;

comment on function pgmq.create_non_partitioned(text) is
    'Alias of create.';
revoke execute on function pgmq.create_non_partitioned(text) from public;
grant execute on function pgmq.create_non_partitioned(text) to sluice_admin;
