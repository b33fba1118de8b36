/*
 * A pass is one position for the entries of all logs (pgq._due_retries), so it continues past a log that failed. The
 * due entries of that log get a later time instead, in their order: after the pass. This includes its due entries
 * behind the end of the pass: otherwise the next passes would be filled by them, and the other logs would wait.
 *
 * The next attempt is after ten seconds, and with repeated failures up to ten minutes later; after one second if the
 * transaction failed on a lock or a conflict.
 *
 * Entries that were copied to the other table (pgq._maintain_retry) keep their time, or they would count twice.
 */
create or replace function pgq._postpone_retries(i_queue_id integer, i_last pgq.retry_pass, i_pass pgq.retry_pass, i_now timestamptz, i_sqlstate text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_other constant oid := format('pgq.retry_entry_%s', 1 - i_last.pass_table)::regclass;
    v_since constant timestamptz := (
        select f.failed_since
        from sluice.failure as f
        join pgq.queue as q on q.queue_name = f.queue_name
        where f.task = 'retry' and q.queue_id = i_queue_id
    );
    v_next constant timestamptz := greatest(i_now, i_pass.pass_time) + case
        when i_sqlstate like '40%' or i_sqlstate = '55P03' then interval '1 second'
        else least(greatest(i_now - v_since, interval '10 seconds'), interval '10 minutes')
    end;
begin
    i_pass.pass_time := greatest(i_pass.pass_time, i_now);
    i_pass.pass_entry := 9223372036854775807;
    update pgq.retry_entry as e
    set ev_retry_after = v_next + due.number * interval '1 microsecond'
    from (
        select d.ev_retry_after, d.entry_id, row_number() over (order by d.ev_retry_after, d.entry_id) as number
        from pgq._due_retries(i_last, i_pass) as d
        where d.ev_queue = i_queue_id
    ) as due
    where (e.ev_retry_after, e.entry_id) = (due.ev_retry_after, due.entry_id)
      and (e.tableoid <> v_other or (e.ev_retry_after, e.entry_id) > (i_last.copied_time, i_last.copied_entry));
end;
$$;

comment on function pgq._postpone_retries(integer, pgq.retry_pass, pgq.retry_pass, timestamptz, text) is
    'Set the due entries of a log that failed to a later time, in their order.';
revoke execute on function pgq._postpone_retries(integer, pgq.retry_pass, pgq.retry_pass, timestamptz, text) from public;
grant execute on function pgq._postpone_retries(integer, pgq.retry_pass, pgq.retry_pass, timestamptz, text) to pgq_admin, sluice_admin;
