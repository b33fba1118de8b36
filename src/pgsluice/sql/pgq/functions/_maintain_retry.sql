/*
 * Copies what is still needed to the other table and empties this one. When? A copy costs what it keeps, so it is made when the
 * table has grown to twice what the last copy kept: each row pays for one more row's copy, however many wait.
 *
 * Kept are the entries that were not moved, and those of batches that are open: an event comes again once for each batch.
 *
 * Never waits: whoever wrote an entry, or has looked at the passes, is in the way until the end of its transaction.
 */
create or replace function pgq._maintain_retry(i_bytes_min bigint default 8388608)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_lock_class constant integer := 1885827956; -- pgq.maint_retry_events's lock
    v_pass pgq.retry_pass;
    v_from name;
    v_to name;
begin
    v_pass := pgq._last_retry_pass();
    v_from := format('retry_entry_%s', v_pass.pass_table);
    if pg_relation_size(format('pgq.%I', v_from)::regclass) < greatest(i_bytes_min, 2 * v_pass.pass_kept_bytes)
        or current_setting('transaction_isolation') <> 'read committed'
        or not pg_try_advisory_xact_lock(v_lock_class, 0)
    then
        return false;
    end if;
    begin
        execute format('lock table pgq.%I, pgq.retry_pass in access exclusive mode nowait', v_from);
    exception
        when lock_not_available then
            return false;
    end;

    -- With the locks nothing changes any more, and all that was written is seen.
    v_pass := pgq._last_retry_pass();
    if v_from <> format('retry_entry_%s', v_pass.pass_table) then
        return false;
    end if;
    v_to := format('retry_entry_%s', 1 - v_pass.pass_table);
    execute format(
        'insert into pgq.%I
         select e.*
         from pgq.%I as e
         where e.ev_retry_after > $1
            or not pg_visible_in_snapshot(e.entry_txid, $2)
            or exists (select from pgq.open_batch as b where b.batch_id = e.entry_batch)',
        v_to, v_from
    )
    using v_pass.pass_time, v_pass.pass_snapshot;
    execute format('truncate pgq.%I, pgq.retry_pass', v_from);
    v_pass.pass_table := 1 - v_pass.pass_table;
    v_pass.pass_kept_bytes := pg_relation_size(format('pgq.%I', v_to)::regclass);
    insert into pgq.retry_pass values (v_pass.*);
    return true;
end;
$$;

comment on function pgq._maintain_retry(bigint) is
    'Empty the table of retry entries when most of it is done with; false when it is not worth it yet or somebody uses it.';
revoke execute on function pgq._maintain_retry(bigint) from public;
grant execute on function pgq._maintain_retry(bigint) to pgq_admin, sluice_admin;
