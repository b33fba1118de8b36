-- Held to the end of the transaction: if released earlier, a second session would enter before it can see the tables of
-- the first.
create or replace function pgmq.acquire_queue_lock(queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- By the folded name: 'Orders' and 'orders' are one table.
    perform sluice._lock_name(format('pgmq.queue_%s', lower(queue_name)));
end;
$$;

comment on function pgmq.acquire_queue_lock(text) is
    'Serialize the creation and the drop of a queue.';
revoke execute on function pgmq.acquire_queue_lock(text) from public;
grant execute on function pgmq.acquire_queue_lock(text) to sluice_admin;
