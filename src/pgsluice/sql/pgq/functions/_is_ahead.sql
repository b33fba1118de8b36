-- Transactions that a snapshot of this server sees have ended for good, and snapshots only advance. In a dump that was
-- restored into another server, the ids belong to other transactions.
create or replace function pgq._is_ahead(i_snapshot pg_snapshot)
returns boolean
language sql
set search_path = pg_catalog, pg_temp
as $$
    select pg_snapshot_xmin(mine.snapshot) < pg_snapshot_xmin(i_snapshot)
        or pg_snapshot_xmax(mine.snapshot) < pg_snapshot_xmax(i_snapshot)
        or exists (
            select from pg_snapshot_xip(mine.snapshot) as running (txid) where pg_visible_in_snapshot(running.txid, i_snapshot)
        )
    from pg_current_snapshot() as mine (snapshot);
$$;

comment on function pgq._is_ahead(pg_snapshot) is
    'True if this snapshot does not precede the current one, as every snapshot of this server does.';
revoke execute on function pgq._is_ahead(pg_snapshot) from public;
grant execute on function pgq._is_ahead(pg_snapshot) to pgq_admin, sluice_admin;
