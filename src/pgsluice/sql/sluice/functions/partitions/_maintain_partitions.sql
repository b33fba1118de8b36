/*
 * All work is done under locks held until the end of the transaction, so it is short: it waits 50 ms for its first lock and
 * 10 ms for each later one, and takes no more once the first is held for 0.1 s. It reports skipped work, which the next
 * call does. These waits are shorter than deadlock_timeout, so it never makes another session fail.
 *
 * Concurrent calls share the tables: each locks a row of sluice.lock per table, or skips the table. (Not the row of the
 * table itself: skip locked waits nevertheless if the row was updated meanwhile.) Each table and step has its
 * subtransaction, so that a failure does not stop the others.
 *
 * Calls: _drain_default_partition, _premake_partitions, _drop_partitions. Writes: sluice.partitioned_table.
 */
create or replace function sluice._maintain_partitions()
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
as $$
declare
    v_lock_class constant integer := 1936551792;
    v_budget constant interval := '100 milliseconds';
    v_locked_at timestamptz;
    v_table record;
    v_parent regclass;
    v_details text[];
begin
    for v_table in select p.* from sluice.partitioned_table as p order by p.maintained_at, p.table_name
    loop
        if clock_timestamp() > v_locked_at + v_budget then
            return query values ('partitions', null::text, false, 'time is up; the next call goes on');
            return;
        end if;
        continue when not sluice._try_lock(v_lock_class, hashtext(v_table.table_name::text));
        begin
            -- Unless another call has done it meanwhile, or the queue was dropped.
            update sluice.partitioned_table as p
            set maintained_at = clock_timestamp()
            where p.table_name = v_table.table_name and p.maintained_at = v_table.maintained_at;
            continue when not found;
        exception
            when lock_not_available then
                continue; -- It is being dropped.
        end;
        v_parent := to_regclass(format('pgmq.%I', v_table.table_name));

        foreach task in array array['drain default partition', 'create partitions', 'drop partitions']
        loop
            queue_name := v_table.queue_name;
            perform set_config('lock_timeout', case when v_locked_at is null then '50ms' else '10ms' end, true);
            begin
                if (sluice._partition_key(v_parent)).default_partition is null then
                    raise undefined_table using message = format('%I is not there, or has no default partition', v_table.table_name);
                end if;
                perform pgmq._require_own_table(v_table.table_name::text);
                v_details := case task
                    when 'drain default partition' then array[
                        sluice._drain_default_partition(v_parent, v_table.queue_name::text, v_table.partition_interval)
                    ]
                    when 'create partitions' then array(
                        select sluice._premake_partitions(
                            v_parent, v_table.queue_name::text, v_table.partition_interval, v_table.premake
                        )
                    )
                    else array(
                        select sluice._drop_partitions(
                            v_parent, v_table.queue_name::text, v_table.partition_interval, v_table.retention_interval
                        )
                    )
                end;
                done := true;
                perform sluice._note_failure(task, queue_name, null::text, null::text);
                foreach detail in array array_remove(v_details, null)
                loop
                    v_locked_at := coalesce(v_locked_at, clock_timestamp());
                    return next;
                end loop;
            exception
                when lock_not_available or deadlock_detected then
                    done := false;
                    detail := format('%s is in use; the next call tries again', v_table.table_name);
                    return next;
                -- For example a manual change, a trigger, or a missing privilege. It must not stop the other queues.
                when others then
                    done := false;
                    detail := sqlerrm;
                    perform sluice._note_failure(task, queue_name, null::text, format('%s (%s)', sqlerrm, sqlstate));
                    return next;
            end;
        end loop;
    end loop;
end;
$$;

comment on function sluice._maintain_partitions() is
    'Create, fill and drop the partitions of all partitioned queues; returns a row per step done, or skipped for now.';
revoke execute on function sluice._maintain_partitions() from public;
grant execute on function sluice._maintain_partitions() to sluice_admin;
