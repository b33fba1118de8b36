/*
 * Which entries are due, of those that were not moved before?
 *
 * By time alone: `ev_retry_after > $last_time and ev_retry_after <= $now`. That loses what a transaction wrote before the last
 * pass and committed after it, when its time was over already. It is the question of the batches again, with a time beside the
 * snapshot, and has the same answer. Due at a pass is what its snapshot sees and whose time has come; to be moved is what is due
 * at this pass and was not at the last one. Either its time came since, or its transaction became visible since:
 *
 *     ev_retry_after > $last_time                                     a range of one index
 *     ev_retry_after <= $last_time and entry_txid >= xmax($last)      a range of another
 *     ev_retry_after <= $last_time and entry_txid = any (xip($last))  a few exact ids
 *
 * An entry is in exactly one of the three, and moved by exactly one pass.
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
begin
    return query
        select e.*
        from pgq.retry_entry as e
        where e.ev_retry_after > i_last.pass_time
          and e.ev_retry_after <= i_pass.pass_time
          and pg_visible_in_snapshot(e.entry_txid, i_pass.pass_snapshot)
        union all
        select e.*
        from pgq.retry_entry as e
        where (e.ev_retry_after <= i_last.pass_time) is true
          and e.entry_txid >= pg_snapshot_xmax(i_last.pass_snapshot)
          and pg_visible_in_snapshot(e.entry_txid, i_pass.pass_snapshot)
        union all
        select e.*
        from pgq.retry_entry as e
        where (e.ev_retry_after <= i_last.pass_time) is true
          and e.entry_txid = any (array(select pg_snapshot_xip(i_last.pass_snapshot)))
          and pg_visible_in_snapshot(e.entry_txid, i_pass.pass_snapshot);
end;
$$;

comment on function pgq._due_retries(pgq.retry_pass, pgq.retry_pass) is
    'The entries that are to be put back into their logs between two passes.';
revoke execute on function pgq._due_retries(pgq.retry_pass, pgq.retry_pass) from public;
grant execute on function pgq._due_retries(pgq.retry_pass, pgq.retry_pass) to pgq_admin, sluice_admin;
