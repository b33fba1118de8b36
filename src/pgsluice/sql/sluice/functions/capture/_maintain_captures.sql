-- Runs as the caller, who needs the rights to create triggers on the partitions and to read them. Each partition has its
-- subtransaction. The lock waits are shorter than deadlock_timeout, so it never makes another session fail.
--
-- Calls: sluice.list_uncovered_partitions, sluice._cover_partition.
create or replace function sluice._maintain_captures()
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
as $$
declare
    v_bytes_max constant bigint := 64 << 20; -- takes seconds, in which its writers wait
    v_found record;
    v_failed text[] := '{}';
begin
    task := 'captures';
    for v_found in
        select u.queue_name, u.partition, u.source_table, u.options
        from sluice.list_uncovered_partitions(null::text) as u
    loop
        queue_name := v_found.queue_name;
        begin
            perform sluice._require_capturable(v_found.source_table);
            if pg_relation_size(v_found.partition) > v_bytes_max then
                raise exception using
                    errcode = '54000',
                    message = format('it has more than %s', pg_size_pretty(v_bytes_max)) || format(
                        ', and its writers wait meanwhile; run: select sluice.capture(%L, %L, %L)',
                        v_found.source_table, v_found.queue_name, v_found.options
                    );
            end if;
            perform sluice._cover_partition(v_found.partition, v_found.queue_name, v_found.options);
            done := true;
            detail := format('partition %s of %s is captured', v_found.partition, v_found.source_table);
        exception
            when lock_not_available or deadlock_detected then
                done := false;
                detail := format('%s is in use; the next call tries again', v_found.partition);
            when others then
                done := false;
                detail := format('partition %s of %s is not captured: %s', v_found.partition, v_found.source_table, sqlerrm);
                perform sluice._note_failure(task, queue_name, null::text, format('%s (%s)', detail, sqlstate));
                v_failed := v_failed || queue_name;
        end;
        return next;
    end loop;
    perform sluice._note_failure(f.task, f.queue_name, null::text, null::text)
    from sluice.failure as f
    where f.task = 'captures' and f.queue_name <> all (v_failed);
end;
$$;

comment on function sluice._maintain_captures() is
    'Cover the new partitions of captured tables; returns a row per partition, done or skipped for now.';
revoke execute on function sluice._maintain_captures() from public;
grant execute on function sluice._maintain_captures() to sluice_admin;
