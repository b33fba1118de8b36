/*
 * Copies the entries that are still needed to the other table and truncates this one. The cost of a copy depends on
 * what it keeps, so it starts when the table has grown to twice the size that the last copy kept: the amortised cost is
 * one copied row per inserted row, whatever the number of waiting entries.
 *
 * Kept are entries that were not moved, and those of open batches: a batch retries an event only once.
 *
 * Millions of entries may be kept, so it runs in steps, and only pgq._move_retries waits for a step:
 *
 * 1. The tables are swapped: new entries go to the other one. No running transaction may have read the passes, as every
 *    writer of an entry does: from here on nothing is added to the first table.
 * 2. Its entries are copied in the order of their places, some at each call. The pass stores the progress: a copied
 *    entry counts in the other table only.
 * 3. It is truncated, by a call that copies nothing: every snapshot taken after pgq._lock_tables has looked for pg_dump
 *    shows the copies.
 *
 * Steps 1 and 3 need exclusive locks for a moment. They are skipped when a lock conflicts; when the table has twice the
 * size that it should have, they wait for up to 100 ms.
 */
create or replace function pgq._maintain_retry(i_bytes_min bigint default 8388608, i_entries_max integer default 20000)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set max_parallel_workers_per_gather = 0
set jit = off
as $$
declare
    v_pass pgq.retry_pass;
    v_full name;
    v_other name;
    v_bytes bigint;
    v_bytes_max bigint;
    v_wait_ms integer;
    v_entries_max integer := i_entries_max;
    v_step record;
begin
    v_pass := pgq._last_retry_pass();
    v_full := format('retry_entry_%s', v_pass.pass_table);
    v_other := format('retry_entry_%s', 1 - v_pass.pass_table);
    v_bytes := pg_relation_size(format('pgq.%I', v_full)::regclass);
    v_bytes_max := greatest(i_bytes_min, 2 * v_pass.pass_kept_bytes);
    if (v_bytes < v_bytes_max and pg_relation_size(format('pgq.%I', v_other)::regclass) = 0)
        or current_setting('transaction_isolation') <> 'read committed'
        or not pgq._lock_tables('{pgq.retry_pass}'::regclass[], 'share update exclusive', 0)
        or pgq._is_restored(0)
    then
        return false;
    end if;
    v_pass := pgq._last_retry_pass(); -- the locks keep other sessions from writing a pass
    v_full := format('retry_entry_%s', v_pass.pass_table);
    v_other := format('retry_entry_%s', 1 - v_pass.pass_table);
    v_wait_ms := case when v_bytes >= 2 * v_bytes_max then 100 else 0 end;

    if pg_relation_size(format('pgq.%I', v_other)::regclass) = 0 then
        if v_bytes < v_bytes_max or not pgq._lock_tables('{pgq.retry_pass}'::regclass[], 'access exclusive', v_wait_ms) then
            return false;
        end if;
        truncate pgq.retry_pass;
        v_pass.pass_table := 1 - v_pass.pass_table;
        v_pass.copied_time := '-infinity';
        v_pass.copied_entry := 0;
        insert into pgq.retry_pass values (v_pass.*);
        v_entries_max := least(i_entries_max, 1000); -- sessions that read the passes wait for this transaction
        v_full := format('retry_entry_%s', v_pass.pass_table);
        v_other := format('retry_entry_%s', 1 - v_pass.pass_table);
    end if;

    execute format(
        'with step as materialized (
            select e.*
            from pgq.%I as e
            where (e.ev_retry_after, e.entry_id) > ($1.copied_time, $1.copied_entry)
            order by e.ev_retry_after, e.entry_id
            limit $2
        ),
        copied as (
            insert into pgq.%I
            select s.*
            from step as s
            where (
                    (s.ev_retry_after, s.entry_id) > ($1.pass_time, $1.pass_entry)
                    or not pg_visible_in_snapshot(s.entry_txid, $1.pass_snapshot)
                    or exists (select from pgq.open_batch as b where b.batch_id = s.entry_batch)
                )
              and exists (select from pgq.queue as q where q.queue_id = s.ev_queue offset 0)
        )
        select s.ev_retry_after, s.entry_id, count(*) over () as entries
        from step as s
        order by s.ev_retry_after desc, s.entry_id desc
        limit 1',
        v_other, v_full
    )
    using v_pass, v_entries_max
    into v_step;
    if v_step.entries = v_entries_max then
        v_pass.pass_id := v_pass.pass_id + 1;
        v_pass.copied_time := v_step.ev_retry_after;
        v_pass.copied_entry := v_step.entry_id;
        insert into pgq.retry_pass values (v_pass.*);
        return true;
    end if;

    v_pass.pass_id := v_pass.pass_id + 1;
    v_pass.copied_time := 'infinity';
    v_pass.copied_entry := 9223372036854775807;
    if v_step.entries > 0
        or not pgq._lock_tables(
            array[format('pgq.%I', v_other)::regclass, 'pgq.retry_pass'], 'access exclusive', v_wait_ms
        )
    then
        insert into pgq.retry_pass values (v_pass.*);
        return true;
    end if;
    execute format('truncate pgq.%I, pgq.retry_pass', v_other);
    v_pass.copied_time := '-infinity';
    v_pass.copied_entry := 0;
    v_pass.pass_kept_bytes := pg_relation_size(format('pgq.%I', v_full)::regclass);
    insert into pgq.retry_pass values (v_pass.*);
    return true;
end;
$$;

comment on function pgq._maintain_retry(bigint, integer) is
    'Truncate a table of retry entries in steps when most of it is obsolete; false if it is too early or a lock conflicts.';
revoke execute on function pgq._maintain_retry(bigint, integer) from public;
grant execute on function pgq._maintain_retry(bigint, integer) to pgq_admin, sluice_admin;
