-- Transactions that i_upto sees and i_after does not: those from xmax(i_after) on that are not in progress in i_upto,
-- and those in progress in i_after. Returned as the gaps between transactions in progress: one of these may have
-- written millions of rows, and an index scan over them would visit each only to find it invisible.
create or replace function pgq._ended_between(i_after pg_snapshot, i_upto pg_snapshot)
returns table (after_txid xid8, before_txid xid8)
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select gap.after_txid::text::xid8, gap.before_txid::text::xid8
    from (
        select running.txid, lead(running.txid) over (order by running.txid)
        from (
            select pg_snapshot_xmax(i_after)::text::bigint - 1
            union all
            select x.txid::text::bigint from pg_snapshot_xip(i_upto) as x (txid) where x.txid >= pg_snapshot_xmax(i_after)
            union all
            select pg_snapshot_xmax(i_upto)::text::bigint
        ) as running (txid)
    ) as gap (after_txid, before_txid)
    where gap.before_txid > gap.after_txid + 1
    union all
    select (late.txid::text::bigint - 1)::text::xid8, (late.txid::text::bigint + 1)::text::xid8
    from pg_snapshot_xip(i_after) as late (txid)
    where pg_visible_in_snapshot(late.txid, i_upto);
$$;

comment on function pgq._ended_between(pg_snapshot, pg_snapshot) is
    'Return the transactions that the second snapshot sees and the first does not, as ranges without their ends.';
revoke execute on function pgq._ended_between(pg_snapshot, pg_snapshot) from public;
grant execute on function pgq._ended_between(pg_snapshot, pg_snapshot) to pgq_admin, sluice_admin;
