-- Calls: pgq._due_retries, which defines what is due. Security definer: it writes into the logs and into
-- pgq.retry_pass.
--
-- A retried event keeps its number. A delayed one gets the log's next number here, in the order of due time, so that
-- the numbers of a log stay in the order in which its events were appended.
--
-- A log that cannot take its events, for whatever reason, is skipped: see pgq._postpone_retries. A warning names it,
-- and sluice.list_failures() lists it.
create or replace function pgq._move_retries(i_events_max integer)
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
    v_now constant timestamptz := clock_timestamp();
    v_last pgq.retry_pass;
    v_pass pgq.retry_pass;
    v_other oid;
    -- Each log needs locks on its table, an index and its sequence.
    v_logs_max constant integer := greatest(sluice._lock_slots() / 4 / 5, 2);
    v_events_max integer;
    v_queue_ids integer[];
    v_queue_id integer;
    v_log record;
    v_name text;
    v_hint text;
    v_events integer;
    v_moved integer := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot retry events in a %s transaction', current_setting('transaction_isolation')),
            detail = 'Its snapshot may be older than the last pass, and would move events twice.',
            hint = 'call it in a READ COMMITTED transaction';
    end if;
    -- One session at a time, until its commit is visible. The snapshot below is newer than the one that the last pass
    -- stored.
    if not pgq._lock_tables('{pgq.retry_pass}'::regclass[], 'share update exclusive', 0) then
        return 0;
    end if;
    if pgq._is_restored(0) then
        raise warning using
            message = 'retried and delayed events are not moved: they were restored from a dump and are not repaired yet',
            hint = 'repair them with: select * from sluice.after_restore()';
        return 0;
    end if;
    v_last := pgq._last_retry_pass();
    if v_now < v_last.pass_time - interval '1 second' then
        v_last := pgq._rewind_retries(v_last, v_now);
    end if;

    v_pass := v_last;
    v_pass.pass_id := v_last.pass_id + 1;
    -- Entries that this transaction writes after the pass belong to the next one.
    v_pass.pass_snapshot := pgq._others_snapshot();
    v_other := format('pgq.retry_entry_%s', 1 - v_last.pass_table)::regclass;
    -- Up to now, but at most i_events_max entries; if these are of too many logs, as few entries as logs may be locked.
    foreach v_events_max in array array[i_events_max, least(i_events_max, v_logs_max)]
    loop
        select e.ev_retry_after, e.entry_id
        into v_pass.pass_time, v_pass.pass_entry
        from pgq.retry_entry as e
        where (e.ev_retry_after, e.entry_id) > (v_last.pass_time, v_last.pass_entry)
          and e.ev_retry_after <= v_now
          and (e.tableoid <> v_other or (e.ev_retry_after, e.entry_id) > (v_last.copied_time, v_last.copied_entry))
          and exists (select from pgq.queue as q where q.queue_id = e.ev_queue offset 0)
        order by e.ev_retry_after, e.entry_id
        offset v_events_max - 1
        limit 1;
        if not found then
            v_pass.pass_time := greatest(v_last.pass_time, v_now);
            v_pass.pass_entry := 9223372036854775807; -- all entries of that time
        end if;
        v_queue_ids := array(select distinct due.ev_queue from pgq._due_retries(v_last, v_pass) as due order by due.ev_queue);
        exit when cardinality(v_queue_ids) <= v_logs_max;
    end loop;

    foreach v_queue_id in array v_queue_ids
    loop
        -- A log that fails must not block the others.
        begin
            select q.queue_name, q.queue_cur_table, q.queue_event_seq
            into v_log
            from pgq.queue as q
            where q.queue_id = v_queue_id
            for key share; -- so that it is not dropped meanwhile
            continue when not found;
            perform pg_current_xact_id(); -- before the numbers, as in pgq.insert_event
            -- One number per event, used or not: the log's sequence tells the ticker that there are events, and how
            -- many.
            execute format(
                'insert into pgq.%I (
                    ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
                 )
                 select coalesce(numbered.ev_id, numbered.next_id), numbered.ev_time, numbered.ev_owner, numbered.ev_retry,
                    numbered.ev_type, numbered.ev_data, numbered.ev_extra1, numbered.ev_extra2, numbered.ev_extra3, numbered.ev_extra4
                 from (
                     select ordered.*, nextval($4) as next_id
                     from (
                         select due.*
                         from pgq._due_retries($1, $2) as due
                         where due.ev_queue = $3
                         order by due.ev_retry_after, due.entry_id
                     ) as ordered
                 ) as numbered',
                format('event_%s_%s', v_queue_id, v_log.queue_cur_table)
            )
            using v_last, v_pass, v_queue_id, v_log.queue_event_seq::regclass;
            get diagnostics v_events = row_count;
            v_moved := v_moved + v_events;
            perform sluice._note_failure('retry'::text, v_log.queue_name::text, null::text, null::text);
        exception
            when others then
                v_name := (select q.queue_name from pgq.queue as q where q.queue_id = v_queue_id);
                get stacked diagnostics v_hint = pg_exception_hint;
                raise warning using
                    errcode = sqlstate, message = format('events of event log %s are not retried: %s', v_name, sqlerrm), hint = v_hint;
                perform sluice._note_failure('retry'::text, v_name, null::text, format('%s (%s)', sqlerrm, sqlstate));
                perform pgq._postpone_retries(v_queue_id, v_last, v_pass, v_now, sqlstate::text);
        end;
    end loop;

    -- A pass that moved nothing is stored only if later passes would have to check its entries again.
    if v_moved > 0
        or exists (
            select
            from pgq.retry_entry as e
            where (e.ev_retry_after, e.entry_id) > (v_last.pass_time, v_last.pass_entry) and e.ev_retry_after <= v_now
        )
        or pgq._any_retry(v_last.pass_snapshot, v_pass.pass_snapshot)
    then
        insert into pgq.retry_pass values (v_pass.*);
    end if;
    return v_moved;
end;
$$;

comment on function pgq._move_retries(integer) is
    'Move about i_events_max due events into their logs; returns their number, also 0 if another session is moving them.';
revoke execute on function pgq._move_retries(integer) from public;
grant execute on function pgq._move_retries(integer) to pgq_admin, sluice_admin;
