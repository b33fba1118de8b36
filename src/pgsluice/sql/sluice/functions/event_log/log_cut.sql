/*
 * The end of a read by snapshots. A transaction is never divided, so the result is the first transaction to leave out. The
 * snapshot `upto`, cut there, sees the lower ones that it saw before and nothing else; reads can continue from it as from any
 * other.
 *
 * Transactions that were in progress at `after` and have ended since all belong to the read, and are not counted.
 *
 * The result is made durable first, and only if there is something new: an idle log costs no transaction id.
 *
 * Always by index, whatever the statistics of the tables, which are never analyzed.
 */
create or replace function sluice.log_cut(queue_name text, after pg_snapshot, upto pg_snapshot, max_events bigint)
returns bigint
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
            message = format('event log %L cannot be read by snapshots on a standby', queue_name),
            detail = 'A snapshot of a standby does not list the transactions that are running.',
            hint = 'read by ticks here, or connect to the primary';
    end if;
    v_queue_id := (pgq._require_log(queue_name)).queue_id;
    if not sluice.log_keeps(queue_name, after) then
        raise exception using
            errcode = 'PQ004',
            message = format('event log %L no longer keeps what comes after snapshot %s', queue_name, after),
            detail = 'The events after it may be gone.',
            hint = 'set failOnDataLoss to false to go on from the oldest tick that is kept';
    end if;

    execute format('select pgq.%I($1, $2)', format('event_%s_any', v_queue_id)) using after, upto into v_is_new;
    if not v_is_new then
        return null;
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
        return pg_snapshot_xmax(upto)::text::bigint;
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
    return greatest(v_over::text::bigint, v_first::text::bigint + 1);
end;
$$;

comment on function sluice.log_cut(text, pg_snapshot, pg_snapshot, bigint) is
    'Return the transaction at which to cut upto, so that about max_events events follow after; its xmax if there are fewer, null for none. The snapshot cut there survives a crash once the calling transaction has committed.';
revoke execute on function sluice.log_cut(text, pg_snapshot, pg_snapshot, bigint) from public;
grant execute on function sluice.log_cut(text, pg_snapshot, pg_snapshot, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
