-- For a process that ticks many times a second. A log without news costs a look at the sequence of its events. The session
-- remembers, in a setting, the number up to which all was settled. How does it know? A transaction has its id before its events
-- have numbers. So with a number read first and then an id taken, those who have a number up to this one have a lower id. When
-- all lower ones have ended, the next look sees all that ever comes of them.
create or replace function sluice.tick(out queue_name text, out tick_id bigint)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lock_class constant integer := 1885827956; -- pgq.ticker's, and for its reasons
    v_queue record;
    v_last pgq.tick;
    v_event_seq bigint;
    v_setting text;
    v_known text[]; -- the number, and the id as long as it is not settled
    v_oldest xid8;
    v_is_new boolean;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot tick in a %s transaction', current_setting('transaction_isolation')),
            detail = 'Its snapshot is from the start of the transaction and may be older than the last ticks.',
            hint = 'tick in a READ COMMITTED transaction';
    end if;
    for v_queue in
        select q.queue_id, q.queue_name, q.queue_switch_step2
        from pgq.queue as q
        where not q.queue_external_ticker and not q.queue_ticker_paused
        order by q.queue_name
    loop
        v_event_seq := pgq._event_seq(v_queue.queue_id);
        v_setting := format('sluice.settled_%s', v_queue.queue_id);
        v_known := string_to_array(current_setting(v_setting, true), ' ');
        continue when v_known = array[v_event_seq::text];
        continue when not pg_try_advisory_xact_lock(v_lock_class, v_queue.queue_id);
        if v_queue.queue_switch_step2 is null then
            perform pgq._finish_switch(v_queue.queue_id);
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
                raise warning 'event log % is not ticked: %', v_queue.queue_name, sqlerrm;
        end;
        if v_known[1] is distinct from v_event_seq::text then
            perform set_config(v_setting, format('%s %s', v_event_seq, pg_current_xact_id()), false);
        elsif not v_is_new and v_known[2]::xid8 < v_oldest then
            perform set_config(v_setting, v_event_seq::text, false);
        end if;
    end loop;
end;
$$;

comment on function sluice.tick() is
    'Tick every event log that has an event which no tick covers, now and whatever its settings; one row for each tick.';
revoke execute on function sluice.tick() from public;
grant execute on function sluice.tick() to pgq_admin, sluice_admin;
