/*
 * Which entries are due, of those that were not moved before?
 *
 * By time alone: after the last time, up to now. (By time and number, as many may have one time: that is an entry's place.) That
 * loses what a transaction wrote before the last pass and committed after it, when its time was over already. It is the question
 * of the batches again, with a place beside the snapshot, and has the same answer. Due at a pass is what its snapshot sees and
 * whose place has come; to be moved is what is due at this pass and was not at the last one. Either its place came since, or
 * its transaction became visible since:
 *
 *     place > $last_place and place <= $place                         a range of one index
 *     place <= $last_place, of transactions that ended in between     a few ranges of another: pgq._ended_between
 *
 * An entry is in exactly one of the two, and moved by exactly one pass.
 *
 * While the other table is being emptied (pgq._maintain_retry), those of its entries count that were not copied yet. Entries of a
 * log that was dropped stay where they are, however many.
 *
 * The plan is kept, so it must not be made for the size that the tables have today: always along the indexes. And along the right
 * one: nearly all entries are of the past, few are new. `is true` keeps the planner from looking for those of the past.
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
    'The entries that are to be put back into their logs between two passes.';
revoke execute on function pgq._due_retries(pgq.retry_pass, pgq.retry_pass) from public;
grant execute on function pgq._due_retries(pgq.retry_pass, pgq.retry_pass) to pgq_admin, sluice_admin;
