/*
 * Creates the indexes of queues that are read by groups. Senders wait meanwhile, for the time of a build and until the end
 * of the transaction: so one queue per call, and none with more than bytes_max, which `pgsluice doctor` reports. The lock
 * waits are shorter than deadlock_timeout, so it never makes another session fail.
 *
 * Calls: pgmq._has_fifo_index, pgmq.create_fifo_index. Writes: sluice.group_index_request.
 */
create or replace function sluice._maintain_indexes(bytes_max bigint)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
-- One of the two indexes may exist.
set client_min_messages = warning
as $$
declare
    v_queue_table text;
    v_bytes numeric;
begin
    task := 'indexes';
    for v_queue_table in
        select r.queue_table from sluice.group_index_request as r group by r.queue_table order by min(r.request_id)
    loop
        queue_name := substr(v_queue_table, 3);
        begin
            select coalesce((select sum(pg_relation_size(t.relid)) from pg_partition_tree(c.oid) as t), pg_relation_size(c.oid))
            into v_bytes
            from pg_class as c
            where c.oid = to_regclass(format('pgmq.%I', v_queue_table));
            if v_bytes > bytes_max and not pgmq._has_fifo_index(v_queue_table) then
                done := false;
                detail := format(
                    'it has more than %s, and its senders would wait; run: select pgmq.create_fifo_index(%L)',
                    pg_size_pretty(bytes_max), queue_name
                );
            else
                perform pgmq.create_fifo_index(queue_name);
                delete from sluice.group_index_request as r where r.queue_table = v_queue_table;
                done := true;
                detail := 'the indexes of its groups are created';
            end if;
        exception
            when lock_not_available or deadlock_detected then
                done := false;
                detail := 'it is in use; the next call tries again';
            -- It was dropped, or belongs to another role.
            when undefined_table or insufficient_privilege then
                delete from sluice.group_index_request as r where r.queue_table = v_queue_table;
                continue;
        end;
        return next;
        exit when done;
    end loop;
end;
$$;

comment on function sluice._maintain_indexes(bigint) is
    'Create the indexes of a queue that is read by groups, if it has at most bytes_max; returns a row per queue, done or skipped for now.';
revoke execute on function sluice._maintain_indexes(bigint) from public;
grant execute on function sluice._maintain_indexes(bigint) to sluice_admin;
