-- Held to the end of the transaction: a lock released before commit would let a second session in while
-- the first one's tables are still invisible to it.
create or replace function pgmq.acquire_queue_lock(queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- On the name as the table has it: 'Orders' and 'orders' are one table.
    perform sluice._lock_name(format('pgmq.queue_%s', lower(queue_name)));
end;
$$;

comment on function pgmq.acquire_queue_lock(text) is
    'Let one transaction at a time create or drop this queue.';
revoke execute on function pgmq.acquire_queue_lock(text) from public;
grant execute on function pgmq.acquire_queue_lock(text) to sluice_admin;
