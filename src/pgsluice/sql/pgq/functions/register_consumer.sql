create or replace function pgq.register_consumer(x_queue_name text, x_consumer_id text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgq.register_consumer_at(x_queue_name, x_consumer_id, null::bigint);
end;
$$;

comment on function pgq.register_consumer(text, text) is
    'Subscribe a consumer from the latest tick on; 1 when new, 0 when it was there already.';
revoke execute on function pgq.register_consumer(text, text) from public;
grant execute on function pgq.register_consumer(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
