-- Snapshots that PostgreSQL took are in one order. One that was cut at a transaction is not in it: it may see a late commit that
-- a newer tick does not see. So this asks transaction by transaction.
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
    'Does a snapshot see everything that another one sees?';
revoke execute on function sluice._covers(pg_snapshot, pg_snapshot) from public;
grant execute on function sluice._covers(pg_snapshot, pg_snapshot) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
