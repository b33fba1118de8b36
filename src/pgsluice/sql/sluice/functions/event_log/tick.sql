/*
 * For a process that ticks many times a second. An idle log costs one read of the sequence of its events: the session
 * remembers, in a setting, the number up to which the log is settled, that is, up to which no event can appear without a tick
 * that covers it.
 *
 * Proof. Let n be the last number of a log, read first, and x the transaction id that this call takes after it. A producer
 * takes its transaction id before its events take their numbers. So every producer of an event numbered up to n had its id
 * when n was read, before x was taken: its id is lower than x. When all ids below x have ended, every such event is committed
 * or never will be, and the next check, by a later snapshot, sees them. If it finds nothing new while the last number is still
 * n, ticks cover everything up to n for good.
 *
 * So the numbers of all logs are read before the id is taken. A transaction takes one id only: if it has one already when this
 * call starts, the id is older than the numbers, and nothing is remembered.
 *
 * When a log is settled and its last tick has a lower number, it is ticked once more, without events: numbers of rolled back
 * events, or of one committed while that tick was taken, must not count as events without a tick for ever.
 *
 * One call processes a page of the logs: up to 800 with the default settings, 64 with new events. The next call of the session
 * continues behind it; the setting sluice.tick_after is '>' and the name of the last log of the page, and '>' alone after the
 * last page.
 */
create or replace function sluice.tick(out log_name text, out tick_id bigint)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_had_id constant boolean := pg_current_xact_id_if_assigned() is not null;
    -- A full check locks some 25 tables, indexes and sequences; reading a number locks one sequence. A new session knows no
    -- settled logs, and checks each.
    v_looks_max constant integer := greatest(sluice._lock_slots() / 4 / 25, 2);
    v_page_logs constant integer := case
        when current_setting('sluice.tick_after', true) <> '' then greatest(sluice._lock_slots() / 8, 2)
        else v_looks_max
    end;
    v_after constant text := pgq._page_start('sluice.tick_after'::text, v_page_logs);
    v_looks integer := 0;
    v_queue_ids integer[];
    v_event_seqs bigint[];
    v_queue record;
    v_last pgq.tick;
    v_setting text;
    v_known text[]; -- the number, and the id as long as it is not settled
    v_txid xid8;
    v_oldest xid8;
    v_name text;
    v_is_new boolean;
    v_is_settled boolean;
    v_hint text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot tick in a %s transaction', current_setting('transaction_isolation')),
            detail = 'Its snapshot is from the start of the transaction and may be older than the last ticks.',
            hint = 'tick in a READ COMMITTED transaction';
    end if;
    -- All numbers before the id: see above.
    v_queue_ids := array(
        select q.queue_id
        from pgq.queue as q
        where (v_after is null or q.queue_name > v_after)
          and not q.queue_external_ticker
          and not q.queue_ticker_paused
        order by q.queue_name
        limit v_page_logs
    );
    v_event_seqs := pgq._event_seqs(v_queue_ids);
    perform set_config(
        'sluice.tick_after',
        case
            when cardinality(v_queue_ids) = v_page_logs
                then (select '>' || q.queue_name from pgq.queue as q where q.queue_id = v_queue_ids[v_page_logs])
            else '>'
        end,
        false
    );
    for v_queue in
        select q.queue_id, q.queue_name, q.queue_switch_step2, numbers.event_seq
        from unnest(v_queue_ids, v_event_seqs) as numbers (queue_id, event_seq)
        join pgq.queue as q on q.queue_id = numbers.queue_id
        where (current_setting(format('sluice.settled_%s', q.queue_id), true) = numbers.event_seq::text) is not true
        order by q.queue_name
    loop
        v_setting := format('sluice.settled_%s', v_queue.queue_id);
        v_known := string_to_array(current_setting(v_setting, true), ' ');
        if v_looks = v_looks_max then
            perform set_config('sluice.tick_after', '>' || v_name, false);
            exit;
        end if;
        v_looks := v_looks + 1;
        v_name := v_queue.queue_name;

        v_is_new := null;
        v_is_settled := null;
        -- A failing log must not stop the others.
        begin
            continue when not pgq._lock_ticks(v_queue.queue_id, false);
            if v_queue.queue_switch_step2 is null then
                perform pgq._finish_switch(v_queue.queue_id);
            end if;

            if v_known[1] is distinct from v_queue.event_seq::text then
                v_txid := pg_current_xact_id();
            end if;
            v_last := pgq._last_tick(v_queue.queue_id);
            v_oldest := pg_snapshot_xmin(pg_current_snapshot());
            execute format('select pgq.%I($1, pg_current_snapshot())', format('event_%s_any', v_queue.queue_id))
            using v_last.tick_snapshot
            into v_is_new;
            v_is_settled := not v_is_new and v_known[1] = v_queue.event_seq::text and v_known[2]::xid8 < v_oldest;
            if v_is_new or v_is_settled and v_last.tick_event_seq < v_queue.event_seq then
                tick_id := pgq._take_tick(v_queue.queue_id);
                log_name := v_queue.queue_name;
                perform set_config(
                    format('sluice.woken_%s', v_queue.queue_id), format('%s %s', tick_id, pg_current_snapshot()), false
                );
                return next;
            else
                perform pgq._require_newer_snapshot(v_queue.queue_id);
            end if;
            perform
            from sluice.failure as f
            where f.task = 'tick' and f.queue_name = v_queue.queue_name and f.group_name = '';
            if found then
                perform sluice._note_failure('tick'::text, v_queue.queue_name::text, null::text, null::text);
            end if;
        exception
            when others then
                get stacked diagnostics v_hint = pg_exception_hint;
                raise warning using
                    errcode = sqlstate, message = format('event log %s is not ticked: %s', v_queue.queue_name, sqlerrm), hint = v_hint;
                perform sluice._note_failure(
                    'tick'::text, v_queue.queue_name::text, null::text, format('%s (%s)', sqlerrm, sqlstate)
                );
                continue; -- not settled
        end;
        if v_known[1] is distinct from v_queue.event_seq::text then
            if not v_had_id then
                perform set_config(v_setting, format('%s %s', v_queue.event_seq, v_txid), false);
            end if;
        elsif v_is_settled then
            perform set_config(v_setting, v_queue.event_seq::text, false);
        end if;
    end loop;
end;
$$;

comment on function sluice.tick() is
    'Tick every event log that has an event without a tick, now and regardless of its settings; returns a row per tick. With thousands of logs each call of a session handles a part.';
revoke execute on function sluice.tick() from public;
grant execute on function sluice.tick() to pgq_admin, sluice_admin;
