-- Reads the returned entries and those of other logs between them: a log with few entries among millions of another log costs a scan of these.
-- An entry that was committed after its due time is in no page: the next pass moves it.
create or replace function sluice.list_delayed(
    log_name text, qty integer default 100, after_due_at timestamptz default null, after_delayed_id bigint default null
)
returns table (
    delayed_id bigint, due_at timestamptz, ev_time timestamptz, ev_type text, ev_data text,
    ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
)
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
    v_after_time timestamptz := v_pass.pass_time;
    v_after_entry bigint := v_pass.pass_entry;
begin
    if (after_due_at, coalesce(after_delayed_id, 9223372036854775807)) > (v_after_time, v_after_entry) then
        v_after_time := after_due_at;
        v_after_entry := coalesce(after_delayed_id, 9223372036854775807);
    end if;
    return query
        select e.entry_id, e.ev_retry_after, e.ev_time, e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
        from pgq.retry_entry as e
        where (e.ev_retry_after, e.entry_id) > (v_after_time, v_after_entry)
          and (e.tableoid <> v_other or (e.ev_retry_after, e.entry_id) > (v_pass.copied_time, v_pass.copied_entry))
          and e.ev_queue = v_queue_id
          and e.ev_owner is null
        order by e.ev_retry_after, e.entry_id
        limit qty;
end;
$$;

comment on function sluice.list_delayed(text, integer, timestamptz, bigint) is
    'Return the delayed events of a log in the order of due time, after a due_at and delayed_id.';
revoke execute on function sluice.list_delayed(text, integer, timestamptz, bigint) from public;
grant execute on function sluice.list_delayed(text, integer, timestamptz, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
