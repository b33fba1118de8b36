create or replace function sluice.count_delayed(log_name text)
returns bigint
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
    v_queue_id constant integer := (pgq._require_log(log_name)).queue_id;
    v_pass constant pgq.retry_pass := pgq._last_retry_pass();
    v_other constant oid := format('pgq.retry_entry_%s', 1 - v_pass.pass_table)::regclass;
begin
    return (
        select count(*)
        from pgq.retry_entry as e
        where (e.ev_retry_after, e.entry_id) > (v_pass.pass_time, v_pass.pass_entry)
          and (e.tableoid <> v_other or (e.ev_retry_after, e.entry_id) > (v_pass.copied_time, v_pass.copied_entry))
          and e.ev_queue = v_queue_id
          and e.ev_owner is null
    );
end;
$$;

comment on function sluice.count_delayed(text) is
    'Return the number of delayed events of a log; reads the delayed events of all logs.';
revoke execute on function sluice.count_delayed(text) from public;
grant execute on function sluice.count_delayed(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
