-- Hot: without a level of its own, as the planner puts the body of a plain SQL function in its place. It needs no path: nothing
-- but a name with its schema is in it.
create or replace function pgq.next_batch(i_queue_name text, i_consumer_name text)
returns bigint
language sql
as $$
    select (pgq.next_batch_custom(i_queue_name, i_consumer_name, null::interval, null::integer, null::interval)).batch_id;
$$;

comment on function pgq.next_batch(text, text) is
    'Open the consumer''s next batch, or return the one that is open; null when no tick has come since.';
revoke execute on function pgq.next_batch(text, text) from public;
grant execute on function pgq.next_batch(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
