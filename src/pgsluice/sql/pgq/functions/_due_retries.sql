/*
 * Returns the entries that are due and were not moved before.
 *
 * Selecting by time alone (after the last pass, up to now) loses entries that a transaction wrote before the last pass
 * and committed after it, when their time was already due. As with batches, the snapshot is compared too. (Entries with
 * equal times are ordered by number: time and number are the entry's place.) An entry is due at a pass if the pass's
 * snapshot sees it and its place has been reached. This pass moves entries that are due now and were not due at the
 * last one: either their place was reached since, or their transaction became visible since:
 *
 *     place > $last_place and place <= $place                         a range of one index
 *     place <= $last_place, of transactions that ended in between     a few ranges of another: pgq._ended_between
 *
 * An entry is in exactly one of the two, and moved by exactly one pass.
 *
 * While the other table is being emptied (pgq._maintain_retry), only its entries that were not copied yet count.
 * Entries of a dropped log are ignored.
 *
 * The plan is cached, so it must not depend on the present size of the tables: it always uses the indexes, and the
 * right one, because nearly all entries are in the past and few are new. `is true` keeps the planner from scanning
 * those in the past.
 */
create or replace function pgq._due_retries(i_last pgq.retry_pass, i_pass pgq.retry_pass)
returns setof pgq.retry_entry
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set max_parallel_workers_per_gather = 0
set jit = off
as $$
declare
    v_other constant oid := format('pgq.retry_entry_%s', 1 - i_last.pass_table)::regclass;
begin
    return query
        select e.*
        from pgq.retry_entry as e
        where (e.ev_retry_after, e.entry_id) > (i_last.pass_time, i_last.pass_entry)
          and (e.ev_retry_after, e.entry_id) <= (i_pass.pass_time, i_pass.pass_entry)
          and pg_visible_in_snapshot(e.entry_txid, i_pass.pass_snapshot)
          and (e.tableoid <> v_other or (e.ev_retry_after, e.entry_id) > (i_last.copied_time, i_last.copied_entry))
          and exists (select from pgq.queue as q where q.queue_id = e.ev_queue offset 0)
        union all
        select late.*
        from pgq._ended_between(i_last.pass_snapshot, i_pass.pass_snapshot) as ended
        cross join lateral (
            select e.*
            from pgq.retry_entry as e
            where e.entry_txid > ended.after_txid
              and e.entry_txid < ended.before_txid
              and ((e.ev_retry_after, e.entry_id) <= (i_last.pass_time, i_last.pass_entry)) is true
              and (e.tableoid <> v_other or (e.ev_retry_after, e.entry_id) > (i_last.copied_time, i_last.copied_entry))
              and exists (select from pgq.queue as q where q.queue_id = e.ev_queue offset 0)
            offset 0
        ) as late;
end;
$$;

comment on function pgq._due_retries(pgq.retry_pass, pgq.retry_pass) is
    'Return the entries to move into their logs between two passes.';
revoke execute on function pgq._due_retries(pgq.retry_pass, pgq.retry_pass) from public;
grant execute on function pgq._due_retries(pgq.retry_pass, pgq.retry_pass) to pgq_admin, sluice_admin;
