-- Hot path: the planner inlines the body of a plain SQL function. It needs no pinned search_path, because every name in
-- it is qualified.
create or replace function pgq.next_batch(i_queue_name text, i_consumer_name text)
returns bigint
language sql
as $$
    select (pgq.next_batch_custom(i_queue_name, i_consumer_name, null::interval, null::integer, null::interval)).batch_id;
$$;

comment on function pgq.next_batch(text, text) is
    'Open the consumer''s next batch, or return the open one; null if there is no new tick.';
revoke execute on function pgq.next_batch(text, text) from public;
grant execute on function pgq.next_batch(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
