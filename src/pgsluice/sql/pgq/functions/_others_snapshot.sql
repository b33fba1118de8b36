-- In its own snapshot a transaction is not in progress, and its writes look committed. But it may write more, and may
-- still roll back: in a stored snapshot, the transaction that took it must count as in progress.
create or replace function pgq._others_snapshot()
returns pg_snapshot
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_snapshot pg_snapshot := pg_current_snapshot();
    v_own xid8 := pg_current_xact_id_if_assigned();
begin
    if v_own < pg_snapshot_xmax(v_snapshot) then
        v_snapshot := format(
            '%s:%s:%s', least(v_own, pg_snapshot_xmin(v_snapshot)), pg_snapshot_xmax(v_snapshot),
            (
                select string_agg(running.txid::text, ',' order by running.txid)
                from (select v_own union select pg_snapshot_xip(v_snapshot)) as running (txid)
            )
        );
    end if;
    return v_snapshot;
end;
$$;

comment on function pgq._others_snapshot() is
    'Return the current snapshot with the own transaction in progress.';
revoke execute on function pgq._others_snapshot() from public;
grant execute on function pgq._others_snapshot() to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
