-- Snapshots taken by PostgreSQL are totally ordered. A snapshot cut at a transaction is not: it may see a late commit that a
-- newer tick does not see. So this compares transaction by transaction.
create or replace function sluice._covers(i_snapshot pg_snapshot, i_other pg_snapshot)
returns boolean
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select not exists (
            select from pg_snapshot_xip(i_snapshot) as open (txid) where pg_visible_in_snapshot(open.txid, i_other)
        )
        and greatest(0, pg_snapshot_xmax(i_other)::text::bigint - pg_snapshot_xmax(i_snapshot)::text::bigint) = (
            select count(*) from pg_snapshot_xip(i_other) as open (txid) where open.txid >= pg_snapshot_xmax(i_snapshot)
        );
$$;

comment on function sluice._covers(pg_snapshot, pg_snapshot) is
    'True if a snapshot sees every transaction that another one sees.';
revoke execute on function sluice._covers(pg_snapshot, pg_snapshot) from public;
grant execute on function sluice._covers(pg_snapshot, pg_snapshot) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
