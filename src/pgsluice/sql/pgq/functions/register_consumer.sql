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
    'Register a consumer that starts at the latest tick; returns 1 if it is new, 0 if it was registered.';
revoke execute on function pgq.register_consumer(text, text) from public;
grant execute on function pgq.register_consumer(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
