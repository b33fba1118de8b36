create or replace function sluice.log_end(
    log_name text, from_tick bigint, max_events bigint, last_tick bigint, out tick_id bigint, out tick_snapshot pg_snapshot
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_from pgq.tick;
begin
    v_queue_id := (pgq._require_log(log_name)).queue_id;
    v_from := sluice._standing_tick(v_queue_id, from_tick);
    if v_from.tick_id is null then
        raise exception using
            errcode = 'PQ004',
            message = format('event log %L no longer keeps tick %s', log_name, from_tick),
            detail = 'The events after it may be gone.',
            hint = 'set failOnDataLoss to false to go on from the oldest tick that is kept';
    end if;

    -- At least one tick: the events between two ticks cannot be divided.
    execute format(
        'select coalesce(max(t.tick_id) filter (where t.tick_event_seq <= $1), min(t.tick_id), $2)
         from pgq.%I as t
         where t.tick_id > $2
           and (t.tick_id <= $3 or $3 is null)',
        format('tick_%s', v_queue_id)
    )
    using v_from.tick_event_seq + max_events, from_tick, last_tick
    into tick_id;
    tick_snapshot := case
        when tick_id = from_tick then v_from.tick_snapshot else (pgq._find_tick(v_queue_id, tick_id, false)).tick_snapshot
    end;
end;
$$;

comment on function sluice.log_end(text, bigint, bigint, bigint) is
    'Return the last tick within about max_events of from_tick and not after last_tick, and its snapshot.';
revoke execute on function sluice.log_end(text, bigint, bigint, bigint) from public;
grant execute on function sluice.log_end(text, bigint, bigint, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

/*
 * The end of a read by snapshots. A transaction is never divided, so cut_at is the first transaction to leave out. The
 * snapshot `upto`, cut there, sees the lower ones that it saw before and nothing else; reads can continue from it as from any
 * other.
 *
 * Transactions that were in progress at `after` and have ended since all belong to the read, and are not counted.
 *
 * The result is made durable first, and only if there is something new: an idle log costs no transaction id.
 *
 * Always by index, whatever the statistics of the tables, which are never analyzed.
 */
create or replace function sluice.log_end(
    log_name text, after pg_snapshot, max_events bigint, inout upto pg_snapshot, out cut_at bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_queue_id integer;
    v_is_new boolean;
    v_first xid8;
    v_over xid8;
begin
    if pg_is_in_recovery() then
        raise exception using
            errcode = 'PQ004',
            message = format('event log %L cannot be read by snapshots on a standby', log_name),
            detail = 'A snapshot of a standby does not list the transactions that are running.',
            hint = 'read by ticks here, or connect to the primary';
    end if;
    v_queue_id := (pgq._require_log(log_name)).queue_id;
    upto := coalesce(upto, pgq._others_snapshot());
    if after is null then
        perform sluice._flush_offset();
        return;
    end if;
    if not sluice.log_keeps(log_name, after) then
        raise exception using
            errcode = 'PQ004',
            message = format('event log %L no longer keeps what comes after snapshot %s', log_name, after),
            detail = 'The events after it may be gone.',
            hint = 'set failOnDataLoss to false to go on from the oldest tick that is kept';
    end if;

    execute format('select pgq.%I($1, $2)', format('event_%s_any', v_queue_id)) using after, upto into v_is_new;
    if not v_is_new then
        return;
    end if;
    perform sluice._flush_offset();
    if max_events is not null then
        execute format(
            'select e.ev_txid
             from pgq.%I as e
             where e.ev_txid >= pg_snapshot_xmax($1)
               and e.ev_txid < pg_snapshot_xmax($2)
               and pg_visible_in_snapshot(e.ev_txid, $2)
             order by e.ev_txid
             offset $3
             limit 1',
            format('event_%s', v_queue_id)
        )
        using after, upto, max_events
        into v_over;
    end if;
    if v_over is null then
        cut_at := pg_snapshot_xmax(upto)::text::bigint;
        return;
    end if;

    -- At least one transaction.
    execute format(
        'select e.ev_txid
         from pgq.%I as e
         where e.ev_txid >= pg_snapshot_xmax($1)
           and pg_visible_in_snapshot(e.ev_txid, $2)
         order by e.ev_txid
         limit 1',
        format('event_%s', v_queue_id)
    )
    using after, upto
    into v_first;
    cut_at := greatest(v_over::text::bigint, v_first::text::bigint + 1);
end;
$$;

comment on function sluice.log_end(text, pg_snapshot, bigint, pg_snapshot) is
    'Return upto (null: everything committed now), and the transaction at which to cut it, so that about max_events events follow after; its xmax if there are fewer, null for none or if after is null. The snapshot cut there survives a crash once the calling transaction has committed.';
revoke execute on function sluice.log_end(text, pg_snapshot, bigint, pg_snapshot) from public;
grant execute on function sluice.log_end(text, pg_snapshot, bigint, pg_snapshot) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
