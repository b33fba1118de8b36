-- For consumers that cannot rely on maintenance: one index lookup, and none if there are no entries at all. Entries that
-- were committed after their due time are looked up when the last pass is a second old, because entries are written all
-- the time and most are due later.
create or replace function pgq._admit_due()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_late_period constant interval := '1 second';
    v_events_max constant integer := 1000; -- bounds the time that the caller waits
    v_now constant timestamptz := clock_timestamp();
    v_last pgq.retry_pass;
begin
    -- An entry that a running transaction has written counts too.
    if pg_relation_size('pgq.retry_entry_0') + pg_relation_size('pgq.retry_entry_1') = 0 then
        return 0;
    end if;
    v_last := pgq._last_retry_pass();
    perform
    from pgq.retry_entry as e
    where (e.ev_retry_after, e.entry_id) > (v_last.pass_time, v_last.pass_entry)
      and e.ev_retry_after <= v_now
    limit 1;
    if found
        or v_now < v_last.pass_time - interval '1 second' -- the clock was set back: see pgq._move_retries
        or (v_now > v_last.pass_time + v_late_period and pgq._any_retry(v_last.pass_snapshot, pgq._others_snapshot())) then
        return pgq._move_retries(v_events_max);
    end if;
    return 0;
end;
$$;

comment on function pgq._admit_due() is
    'Move some of the due delayed and retried events into their logs; cheap if none is due.';
revoke execute on function pgq._admit_due() from public;
grant execute on function pgq._admit_due() to pgq_admin, sluice_admin;
