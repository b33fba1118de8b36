-- Runs as the caller, who needs the rights to create triggers on the partitions and to read them. Each partition has its
-- subtransaction. The lock waits are shorter than deadlock_timeout, so it never makes another session fail.
--
-- Calls: sluice._follow_partitions, sluice.list_uncovered_partitions, sluice._cover_partition.
create or replace function sluice._maintain_captures()
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
as $$
declare
    v_bytes_max constant bigint := 64 << 20; -- takes seconds, in which its writers wait
    v_bytes bigint;
    v_found record;
    v_failed text[] := '{}';
begin
    task := 'captures';
    for v_found in
        select c.log_name, c.source_table,
            string_agg(format('%s is %s', c.partition_name, c.change), ', ') filter (where c.change in ('dropped', 'detached', 'attached', 'uncaptured')) as changes
        from sluice._partition_changes(null::text, null::oid) as c
        group by c.log_name, c.source_table
    loop
        queue_name := v_found.log_name;
        begin
            perform sluice._follow_partitions(v_found.log_name, v_found.source_table);
            done := true;
            detail := format('partitions of %s: %s', v_found.source_table::regclass, v_found.changes);
        exception
            when lock_not_available or deadlock_detected then
                done := false;
                detail := format('partitions of %s are in use; the next call tries again', v_found.source_table::regclass);
            when others then
                done := false;
                detail := format('partitions of %s cannot be followed: %s', v_found.source_table::regclass, sqlerrm);
                perform sluice._note_failure(task, queue_name, null::text, format('%s (%s)', detail, sqlstate));
                v_failed := v_failed || queue_name;
        end;
        if not done or v_found.changes is not null then
            return next;
        end if;
    end loop;
    for v_found in
        select u.log_name, u.partition, u.source_table, u.options
        from sluice.list_uncovered_partitions(null::text) as u
    loop
        queue_name := v_found.log_name;
        begin
            perform sluice._require_capturable(v_found.source_table);
            v_bytes := pg_relation_size(v_found.partition);
            if v_bytes > 0
                and (sluice._capture_shape(v_found.source_table::oid, v_found.options, null::text[], null::oid[])).key_columns is null
            then
                v_bytes := (select sum(pg_relation_size(p.relid)) from pg_partition_tree(v_found.source_table) as p);
            end if;
            if v_bytes > v_bytes_max then
                raise exception using
                    errcode = '54000',
                    message = format('it has more than %s', pg_size_pretty(v_bytes_max)) || format(
                        ', and its writers wait meanwhile; run: select sluice.capture(%L, %L, %L)',
                        v_found.source_table, v_found.log_name, v_found.options
                    );
            end if;
            perform sluice._cover_partition(v_found.partition, v_found.log_name, v_found.options);
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
    'Cover the new partitions of captured tables, and note dropped and detached ones; returns a row per partition or table, done or skipped for now.';
revoke execute on function sluice._maintain_captures() from public;
grant execute on function sluice._maintain_captures() to sluice_admin;
