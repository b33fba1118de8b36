/*
 * A read does not create the indexes itself: their lock would last until the end of the caller's transaction, which may be
 * long, and senders would wait for it.
 *
 * Two first reads at a time both add a row: a unique key would make one wait for the other. Runs with the rights of the
 * owner of the schemas, so that readers cannot remove or alter requests.
 *
 * Reads: pgmq.meta. Writes: sluice.group_index_request.
 */
create or replace function pgmq._request_fifo_index(queue_table text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bytes_min constant bigint := 1 << 20; -- a read of less takes about 10 ms
begin
    if v_bytes_min <= (
            select coalesce((select sum(pg_relation_size(t.relid)) from pg_partition_tree(c.oid) as t), pg_relation_size(c.oid))
            from pg_class as c
            where c.oid = to_regclass(format('pgmq.%I', queue_table))
        )
        and exists (select from pgmq.meta as m where lower('q_' || m.queue_name) = _request_fifo_index.queue_table)
        and not exists (
            select from sluice.group_index_request as r where r.queue_table = _request_fifo_index.queue_table
        )
    then
        insert into sluice.group_index_request (queue_table) values (_request_fifo_index.queue_table);
    end if;
end;
$$;

comment on function pgmq._request_fifo_index(text) is
    'Request the indexes of create_fifo_index for a queue that is read by groups, if it has 1 MB or more.';
revoke execute on function pgmq._request_fifo_index(text) from public;
grant execute on function pgmq._request_fifo_index(text) to sluice_admin, sluice_reader;
