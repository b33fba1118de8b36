/*
 * The one call that keeps queues in order, to be made again and again: every few seconds, by one process or by many. Each
 * step does a bounded part of its work; calls at the same time share it. No rows: there was nothing to do.
 *
 * A step is a function sluice._maintain_…() with the same columns. The partitions come last: they take locks that are held to
 * the end of the transaction.
 */
create or replace function sluice.maintain()
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- With a snapshot from before its locks it would not see what it drops.
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'active_sql_transaction',
            message = format('maintenance cannot run in a %s transaction', current_setting('transaction_isolation')),
            hint = 'call it in a READ COMMITTED transaction, best one of its own';
    end if;
    -- The steps, a line each. What is due comes first.
    return query select * from sluice._maintain_schedules(10000);
    return query select * from sluice._maintain_retention(10000);
    return query select * from sluice._maintain_deduplication(10000);
    return query select * from sluice._maintain_inbox(10000);
    return query select * from sluice._maintain_attempts(5000);
    return query select * from sluice._maintain_limits(10000);
    return query select * from sluice._maintain_sinks('1 day'::interval, 1000);
    return query select * from sluice._maintain_partitions();
end;
$$;

comment on function sluice.maintain() is
    'Do the next part of the work that keeps queues in order; one row for each thing done, or given up for now (done is false).';
revoke execute on function sluice.maintain() from public;
grant execute on function sluice.maintain() to sluice_admin;
