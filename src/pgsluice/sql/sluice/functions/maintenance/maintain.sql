/*
 * The one call that maintains queues: call it every few seconds, from any number of processes. Each step does a bounded part
 * of its work; concurrent calls share it. No rows: there was no work.
 *
 * A step is a function sluice._maintain_...() with the same columns. Indexes, captures and partitions come last: they take locks
 * that are held until the end of the transaction. A step that fails is rolled back and returns one row, with done false and the
 * error; the other steps run.
 */
create or replace function sluice.maintain()
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_step text;
begin
    -- A snapshot older than its locks would not show the rows it drops.
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'active_sql_transaction',
            message = format('maintenance cannot run in a %s transaction', current_setting('transaction_isolation')),
            hint = 'call it in a READ COMMITTED transaction, preferably a separate one';
    end if;
    -- The steps, a line each; due messages first.
    foreach v_step in array array[
        'sluice._maintain_schedules(10000)',
        'sluice._maintain_retention(10000)',
        'sluice._maintain_keys(10000)',
        'sluice._maintain_attempts(5000)',
        'sluice._maintain_successors(1000)',
        'sluice._maintain_samples()',
        'sluice._maintain_limits(10000)',
        'sluice._maintain_sinks(''1 day''::interval)',
        'sluice._maintain_processes(''1 hour''::interval)',
        'sluice._maintain_actions(1000)',
        'sluice._maintain_indexes(268435456)',
        'sluice._maintain_captures()',
        'sluice._maintain_partitions()'
    ]
    loop
        task := substring(v_step, '_maintain_([a-z]+)');
        -- A step that fails must not stop the others.
        begin
            return query execute 'select * from ' || v_step;
            perform sluice._note_failure(task, null::text, null::text, null::text);
        exception
            when others then
                detail := format('%s (%s)', sqlerrm, sqlstate);
                perform sluice._note_failure(task, null::text, null::text, detail);
                queue_name := null;
                done := false;
                return next;
        end;
    end loop;
end;
$$;

comment on function sluice.maintain() is
    'Do the next part of the maintenance of queues; returns a row per step done, or skipped for now (done is false).';
revoke execute on function sluice.maintain() from public;
grant execute on function sluice.maintain() to sluice_admin;
