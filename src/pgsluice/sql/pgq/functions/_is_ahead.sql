-- What a snapshot of this server's sees has ended, for ever, and its numbers only grow. In a dump that was restored into another
-- server the numbers belong to other transactions.
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
    'Is this snapshot not from before the current one, as all of this server''s are?';
revoke execute on function pgq._is_ahead(pg_snapshot) from public;
grant execute on function pgq._is_ahead(pg_snapshot) to pgq_admin, sluice_admin;
