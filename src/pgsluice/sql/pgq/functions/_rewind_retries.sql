/*
 * Moved entries are recognised by their position in the order of time (pgq._due_retries). After a clock that was ahead
 * is set back, the position of the last pass is in the future, and new entries before it would be moved immediately. So
 * the position is set back, too. Moved entries are deleted first, because they could no longer be told from waiting
 * ones.
 *
 * Entries of open batches are kept, because a batch retries an event only once. Their time is set back, so that they
 * count as moved. Entries that the last pass did not see are kept, and moved when they are due.
 *
 * The caller holds the lock of pgq._move_retries.
 */
create or replace function pgq._rewind_retries(i_last pgq.retry_pass, i_now timestamptz)
returns pgq.retry_pass
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    update pgq.retry_entry as e
    set ev_retry_after = i_now
    where (e.ev_retry_after, e.entry_id) > (i_now, 9223372036854775807)
      and (e.ev_retry_after, e.entry_id) <= (i_last.pass_time, i_last.pass_entry)
      and pg_visible_in_snapshot(e.entry_txid, i_last.pass_snapshot)
      and exists (select from pgq.open_batch as b where b.batch_id = e.entry_batch);
    delete from pgq.retry_entry as e
    where (e.ev_retry_after, e.entry_id) > (i_now, 9223372036854775807)
      and (e.ev_retry_after, e.entry_id) <= (i_last.pass_time, i_last.pass_entry)
      and pg_visible_in_snapshot(e.entry_txid, i_last.pass_snapshot);
    i_last.pass_id := i_last.pass_id + 1;
    i_last.pass_time := i_now;
    i_last.pass_entry := 9223372036854775807;
    insert into pgq.retry_pass values (i_last.*);
    return i_last;
end;
$$;

comment on function pgq._rewind_retries(pgq.retry_pass, timestamptz) is
    'Set the position of the retry queue back after the clock was set back; returns the new pass.';
revoke execute on function pgq._rewind_retries(pgq.retry_pass, timestamptz) from public;
grant execute on function pgq._rewind_retries(pgq.retry_pass, timestamptz) to pgq_admin, sluice_admin;
