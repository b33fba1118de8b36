create or replace function pgq.next_batch(i_queue_name text, i_consumer_name text)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return (pgq.next_batch_custom(i_queue_name, i_consumer_name, null, null, null)).batch_id;
end;
$$;

comment on function pgq.next_batch(text, text) is
    'Open the consumer''s next batch, or return the one that is open; null when no tick has come since.';
revoke execute on function pgq.next_batch(text, text) from public;
grant execute on function pgq.next_batch(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
