-- A batch holds the events that one tick's snapshot sees and the previous tick's does not. Each committed event is in
-- exactly one batch if and only if the ticks are in snapshot order. So:
--   1. one session at a time may tick a log: the lock is taken in a statement of its own, before the statement whose
--      snapshot becomes the tick, and held to the end of the transaction;
--   2. every statement must have a snapshot of its own, which only READ COMMITTED gives;
--   3. a snapshot behind the last tick's is refused: it occurs in a restored dump.
create or replace function pgq.ticker(i_queue_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot tick event log %L in a %s transaction', i_queue_name, current_setting('transaction_isolation')),
            detail = 'Its snapshot is from the start of the transaction and may be older than the last tick.',
            hint = 'call the ticker in a READ COMMITTED transaction';
    end if;

    select q.*
    into v_queue
    from pgq.queue as q
    where q.queue_name = i_queue_name;
    if not found then
        raise exception using
            errcode = 'PQ001',
            table = coalesce(i_queue_name, 'NULL'),
            message = 'no such queue',
            detail = format('There is no event log %L.', i_queue_name),
            hint = format('create it with pgq.create_queue(%L)', i_queue_name);
    end if;
    if v_queue.queue_external_ticker then
        raise exception using
            errcode = 'PQ004',
            message = 'This queue has external tick source.',
            detail = format('The event log is %L.', i_queue_name),
            hint = 'set queue_external_ticker to false in pgq.queue to tick it here';
    end if;
    if v_queue.queue_ticker_paused then
        raise exception using
            errcode = 'PQ004',
            message = 'Ticker has been paused for this queue',
            detail = format('The event log is %L.', i_queue_name),
            hint = 'set queue_ticker_paused to false in pgq.queue';
    end if;
    return (pgq._tick_if_due(v_queue)).tick_id;
end;
$$;

comment on function pgq.ticker(text) is
    'Tick one event log if due; returns the tick_id, or null if no tick is due or another session is ticking it.';
revoke execute on function pgq.ticker(text) from public;
grant execute on function pgq.ticker(text) to pgq_admin, sluice_admin;

-- One call processes a page of the logs: up to 400 with the default settings, 80 of them with a check. The next call of the
-- session continues behind it; the setting sluice.ticker_after is '>' and the name of the last log of the page, and '>' alone
-- after the last page.
create or replace function pgq.ticker()
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- A check locks some 20 tables, indexes and sequences; an idle log two sequences. A new session knows no idle logs.
    v_checks_max constant integer := greatest(sluice._lock_slots() / 4 / 20, 2);
    v_page_logs constant integer := case
        when current_setting('sluice.ticker_after', true) <> '' then greatest(sluice._lock_slots() / 8 / 2, v_checks_max)
        else v_checks_max
    end;
    v_after constant text := pgq._page_start('sluice.ticker_after'::text, v_page_logs);
    v_queue_ids integer[];
    v_queue pgq.queue;
    v_tick record;
    v_checks integer := 0;
    v_name text;
    v_ticked bigint := 0;
    v_hint text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot tick in a %s transaction', current_setting('transaction_isolation')),
            detail = 'Its snapshot is from the start of the transaction and may be older than the last ticks.',
            hint = 'call the ticker in a READ COMMITTED transaction';
    end if;
    v_queue_ids := array(
        select q.queue_id
        from pgq.queue as q
        where (v_after is null or q.queue_name > v_after)
          and not q.queue_external_ticker
          and not q.queue_ticker_paused
        order by q.queue_name
        limit v_page_logs
    );
    perform set_config(
        'sluice.ticker_after',
        case
            when cardinality(v_queue_ids) = v_page_logs
                then (select '>' || q.queue_name from pgq.queue as q where q.queue_id = v_queue_ids[v_page_logs])
            else '>'
        end,
        false
    );
    v_queue_ids := pgq._logs_to_check(v_queue_ids);
    for v_queue in
        select q.*
        from unnest(v_queue_ids) as l (id)
        join pgq.queue as q on q.queue_id = l.id
        order by q.queue_name
    loop
        if v_checks = v_checks_max then
            perform set_config('sluice.ticker_after', '>' || v_name, false);
            exit;
        end if;
        v_checks := v_checks + 1;
        v_name := v_queue.queue_name;
        -- A log that fails, such as one from a restored dump, must not block the others.
        begin
            v_tick := pgq._tick_if_due(v_queue);
            if v_tick.tick_id is not null then
                v_ticked := v_ticked + 1;
            end if;
            perform set_config(format('sluice.ticked_%s', v_queue.queue_id), v_tick.known, false);
            perform sluice._note_failure('tick'::text, v_name, null::text, null::text);
        exception
            when others then
                get stacked diagnostics v_hint = pg_exception_hint;
                raise warning using
                    errcode = sqlstate, message = format('event log %s is not ticked: %s', v_name, sqlerrm), hint = v_hint;
                perform sluice._note_failure('tick'::text, v_name, null::text, format('%s (%s)', sqlerrm, sqlstate));
        end;
    end loop;
    return v_ticked;
end;
$$;

comment on function pgq.ticker() is
    'Tick all event logs that are due; returns how many were ticked. With hundreds of logs, each call of a session ticks the next page.';
revoke execute on function pgq.ticker() from public;
grant execute on function pgq.ticker() to pgq_admin, sluice_admin;

-- Ticks of a log that is replicated from another server come with its events. They are in the order of this server's
-- snapshots too: this waits for the lock, because a skipped tick would not be sent again.
create or replace function pgq.ticker(i_queue_name text, i_tick_id bigint, i_orig_timestamp timestamptz, i_event_seq bigint)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_last_tick_id bigint;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format('cannot tick event log %L in a %s transaction', i_queue_name, current_setting('transaction_isolation')),
            detail = 'Its snapshot is from the start of the transaction and may be older than the last tick.',
            hint = 'call the ticker in a READ COMMITTED transaction';
    end if;
    if i_tick_id is null or i_orig_timestamp is null or i_event_seq is null then
        raise exception using
            errcode = '22004',
            message = 'tick id, time or event number is null',
            hint = 'pass all three values of the origin''s tick';
    end if;
    select q.queue_id
    into v_queue_id
    from pgq.queue as q
    where q.queue_name = i_queue_name
      and q.queue_external_ticker
      and not q.queue_ticker_paused;
    if not found then
        raise exception using
            errcode = 'PQ004',
            message = format('queue not found or ticker disabled: %s', coalesce(i_queue_name, '<NULL>')),
            hint = format('call pgq.set_queue_config(%L, %L, %L)', i_queue_name, 'external_ticker', 'true');
    end if;

    perform pgq._lock_ticks(v_queue_id, true);
    perform pgq._require_newer_snapshot(v_queue_id);
    perform pgq._commit_durably();
    v_last_tick_id := (pgq._last_tick(v_queue_id)).tick_id;
    if i_tick_id <= v_last_tick_id then
        raise exception using
            errcode = 'PQ004',
            message = format('tick %s of event log %L is not after its last tick, %s', i_tick_id, i_queue_name, v_last_tick_id),
            detail = 'A batch is what was committed between one tick and the next.',
            hint = 'pass each tick once, in the order of the origin';
    end if;
    execute format(
        'insert into pgq.%I (tick_queue, tick_id, tick_time, tick_snapshot, tick_event_seq)
         values ($1, $2, $3, pg_current_snapshot(), $4)',
        (select format('tick_%s_%s', q.queue_id, q.queue_cur_table) from pgq.queue as q where q.queue_id = v_queue_id)
    )
    using v_queue_id, i_tick_id, i_orig_timestamp, i_event_seq;
    -- If this server takes over, its sequences continue from here.
    perform setval(s.sequence, s.reached)
    from (values
        (format('pgq.event_%s_tick_seq', v_queue_id)::regclass, i_tick_id),
        (format('pgq.event_%s_id_seq', v_queue_id)::regclass, i_event_seq)
    ) as s (sequence, reached)
    where s.reached > coalesce(pg_sequence_last_value(s.sequence), 0);
    perform pgq._notify_tick(v_queue_id, i_tick_id);
    return i_tick_id;
end;
$$;

comment on function pgq.ticker(text, bigint, timestamptz, bigint) is
    'Tick an externally ticked event log with the number, time and event number of the origin''s tick; returns the tick_id.';
revoke execute on function pgq.ticker(text, bigint, timestamptz, bigint) from public;
grant execute on function pgq.ticker(text, bigint, timestamptz, bigint) to pgq_admin, sluice_admin;
