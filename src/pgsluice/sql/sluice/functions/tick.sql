/*
 * For a process that ticks many times a second. An idle log costs one look at the sequence of its events: the session remembers, in
 * a setting, the number up to which the log is settled, that is, up to which nothing can appear that no tick covers.
 *
 * Proof. Let n be the last number of a log, read first, and x the transaction id that this call takes after it. A producer takes
 * its transaction id before its events take their numbers. So every producer of an event numbered up to n had its id when n was
 * read, before x was taken: its id is lower than x. When all ids below x have ended, every such event is committed or never will
 * be, and the next look, by a later snapshot, sees all of them. If it finds nothing new while the last number is still n, ticks
 * cover everything up to n for ever.
 *
 * So the numbers of all logs are read before the id is taken. A transaction takes one id only: if it has one already when this
 * call begins, the id is older than the numbers, and nothing is remembered.
 */
create or replace function sluice.tick(out queue_name text, out tick_id bigint)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_had_id constant boolean := pg_current_xact_id_if_assigned() is not null;
    v_queue_ids integer[];
    v_event_seqs bigint[];
    v_queue record;
    v_last pgq.tick;
    v_setting text;
    v_known text[]; -- the number, and the id as long as it is not settled
    v_txid xid8;
    v_oldest xid8;
    v_is_new boolean;
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
    select array_agg(q.queue_id), array_agg(pgq._event_seq(q.queue_id))
    into v_queue_ids, v_event_seqs
    from pgq.queue as q
    where not q.queue_external_ticker and not q.queue_ticker_paused;
    for v_queue in
        select q.queue_id, q.queue_name, q.queue_switch_step2, numbers.event_seq
        from unnest(v_queue_ids, v_event_seqs) as numbers (queue_id, event_seq)
        join pgq.queue as q on q.queue_id = numbers.queue_id
        order by q.queue_name
    loop
        v_setting := format('sluice.settled_%s', v_queue.queue_id);
        v_known := string_to_array(current_setting(v_setting, true), ' ');
        continue when v_known = array[v_queue.event_seq::text];
        continue when not pgq._lock_ticks(v_queue.queue_id, false);
        if v_queue.queue_switch_step2 is null then
            perform pgq._finish_switch(v_queue.queue_id);
        end if;

        if v_known[1] is distinct from v_queue.event_seq::text then
            v_txid := pg_current_xact_id();
        end if;
        v_last := pgq._last_tick(v_queue.queue_id);
        v_oldest := pg_snapshot_xmin(pg_current_snapshot());
        v_is_new := null;
        -- A log that cannot be ticked, such as one from a restored dump, must not stop the others.
        begin
            execute format('select pgq.%I($1, pg_current_snapshot())', format('event_%s_any', v_queue.queue_id))
            using v_last.tick_snapshot
            into v_is_new;
            if v_is_new then
                queue_name := v_queue.queue_name;
                tick_id := pgq._take_tick(v_queue.queue_id);
                perform set_config(
                    format('sluice.woken_%s', v_queue.queue_id), format('%s %s', tick_id, pg_current_snapshot()), false
                );
                return next;
            else
                perform pgq._require_newer_snapshot(v_queue.queue_id);
            end if;
        exception
            when sqlstate 'PQ004' then
                get stacked diagnostics v_hint = pg_exception_hint;
                raise warning using message = format('event log %s is not ticked: %s', v_queue.queue_name, sqlerrm), hint = v_hint;
        end;
        if v_known[1] is distinct from v_queue.event_seq::text then
            if not v_had_id then
                perform set_config(v_setting, format('%s %s', v_queue.event_seq, v_txid), false);
            end if;
        elsif not v_is_new and v_known[2]::xid8 < v_oldest then
            perform set_config(v_setting, v_queue.event_seq::text, false);
        end if;
    end loop;
end;
$$;

comment on function sluice.tick() is
    'Tick every event log that has an event which no tick covers, now and whatever its settings; one row for each tick.';
revoke execute on function sluice.tick() from public;
grant execute on function sluice.tick() to pgq_admin, sluice_admin;
