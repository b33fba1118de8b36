-- Calls: pgq._due_retries, which explains what is due. Security definer: it writes into the logs and into pgq.retry_pass.
create or replace function pgq.maint_retry_events()
returns integer
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
    v_lock_class constant integer := 1885827956; -- pgq.ticker's; no log has the number 0
    v_events_max constant integer := 5000; -- a second's work at the most
    v_now constant timestamptz := clock_timestamp();
    v_last pgq.retry_pass;
    v_pass pgq.retry_pass;
    v_log record;
    v_events integer;
    v_moved integer := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot repeat events in a %s transaction', current_setting('transaction_isolation')),
            detail = 'Its snapshot may be older than the last pass, and would move events twice.',
            hint = 'repeat events in a READ COMMITTED transaction';
    end if;
    -- One at a time, and until its commit is visible. The snapshot below is newer than what the last one stored.
    if not pg_try_advisory_xact_lock(v_lock_class, 0) then
        return 0;
    end if;
    v_last := pgq._last_retry_pass();

    v_pass := v_last;
    v_pass.pass_id := v_last.pass_id + 1;
    -- What this transaction writes after the pass is the next one's.
    v_pass.pass_snapshot := pgq._others_snapshot();
    -- Up to now, but not past v_events_max of them. Those of the same time stay together: at the most what one statement queued.
    v_pass.pass_time := greatest(v_last.pass_time, coalesce(
        (
            select e.ev_retry_after
            from pgq.retry_entry as e
            where e.ev_retry_after > v_last.pass_time
              and e.ev_retry_after <= v_now
            order by e.ev_retry_after
            offset v_events_max - 1
            limit 1
        ),
        v_now
    ));

    for v_log in
        select q.queue_id, q.queue_cur_table, q.queue_event_seq
        from pgq.queue as q
        where q.queue_id in (select due.ev_queue from pgq._due_retries(v_last, v_pass) as due)
        order by q.queue_id
        for key share -- so that nobody drops it now
    loop
        execute format(
            'insert into pgq.%I (
                ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
             )
             select due.ev_id, due.ev_time, due.ev_owner, due.ev_retry, due.ev_type, due.ev_data,
                due.ev_extra1, due.ev_extra2, due.ev_extra3, due.ev_extra4
             from pgq._due_retries($1, $2) as due
             where due.ev_queue = $3',
            format('event_%s_%s', v_log.queue_id, v_log.queue_cur_table)
        )
        using v_last, v_pass, v_log.queue_id;
        get diagnostics v_events = row_count;
        -- The ticker sees by the log's sequence that there are events, and how many.
        perform count(nextval(v_log.queue_event_seq::regclass)) from generate_series(1, v_events);
        v_moved := v_moved + v_events;
    end loop;

    -- A pass that moved nothing is worth a row when there are entries that every later one would look at again.
    if v_moved > 0 or exists (
        select from pgq.retry_entry as e where e.entry_txid >= pg_snapshot_xmax(v_last.pass_snapshot)
    ) then
        insert into pgq.retry_pass values (v_pass.*);
    end if;
    return v_moved;
end;
$$;

comment on function pgq.maint_retry_events() is
    'Put events whose time has come back into their logs, some thousands at a time; returns how many: call it until it returns 0.';
revoke execute on function pgq.maint_retry_events() from public;
grant execute on function pgq.maint_retry_events() to pgq_admin, sluice_admin;
