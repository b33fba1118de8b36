create or replace function pgq._require_newer_snapshot(i_queue_id integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_last pg_snapshot;
begin
    v_last := (pgq._last_tick(i_queue_id)).tick_snapshot;
    if pgq._is_ahead(v_last) then
        raise exception using
            errcode = 'PQ004',
            message = format(
                'Invalid PgQ state: old xmin=%s, old xmax=%s, cur txid=%s',
                pg_snapshot_xmin(v_last), pg_snapshot_xmax(v_last), pg_current_xact_id()
            ),
            detail = (
                select format('The snapshot is behind the last tick of event log %L: its ticks are from another server.', q.queue_name)
                from pgq.queue as q
                where q.queue_id = i_queue_id
            ),
            hint = 'this is a restored dump: call sluice.after_restore() once';
    end if;
    -- If this server's ids are within the range of the dump's, the snapshots do not show it.
    perform pgq._refuse_restored(i_queue_id);
end;
$$;

comment on function pgq._require_newer_snapshot(integer) is
    'Raise an error if a tick taken now would be behind the last tick of this log, or if the log was restored from a dump.';
revoke execute on function pgq._require_newer_snapshot(integer) from public;
grant execute on function pgq._require_newer_snapshot(integer) to pgq_admin, sluice_admin;
