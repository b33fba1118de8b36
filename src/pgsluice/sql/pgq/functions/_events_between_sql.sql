-- Which events came between two snapshots? In its simplest form, for A before B:
--
--     where pg_visible_in_snapshot(ev_txid, B) and not pg_visible_in_snapshot(ev_txid, A)
--
-- That reads the whole table. But what A does not see is either at or above xmax(A), or was in progress at A,
-- which xip(A) lists. So an index on ev_txid answers it with one range and a few exact ids: nothing depends on
-- how old the oldest transaction is. A transaction's id is in exactly one difference of a chain of snapshots,
-- whenever it commits; rolled back ones are in none.
--
-- The snapshots stand in the text as literals: the planner sees them, and no join with metadata can go wrong.
create or replace function pgq._events_between_sql(
    i_queue_id integer, i_after pg_snapshot, i_upto pg_snapshot, i_columns text
)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_late text;
    v_query text := 'select %1$s from pgq.%2$I as event where event.ev_txid >= %3$L::pg_catalog.xid8'
        ' and event.ev_txid < %4$L::pg_catalog.xid8'
        ' and pg_catalog.pg_visible_in_snapshot(event.ev_txid, %5$L::pg_catalog.pg_snapshot)';
begin
    -- Commits that came late: open at the first snapshot, done at the second.
    select string_agg(open.txid::text, ',')
    into v_late
    from pg_snapshot_xip(i_after) as open (txid)
    where pg_visible_in_snapshot(open.txid, i_upto);
    if v_late is not null then
        v_query := v_query
            || ' union all select %1$s from pgq.%2$I as event where event.ev_txid = any (%6$L::pg_catalog.xid8[])';
    end if;
    return format(
        v_query,
        i_columns, format('event_%s', i_queue_id),
        pg_snapshot_xmax(i_after), pg_snapshot_xmax(i_upto), i_upto, '{' || v_late || '}'
    );
end;
$$;

comment on function pgq._events_between_sql(integer, pg_snapshot, pg_snapshot, text) is
    'The text of the query for the events that the second snapshot sees and the first does not, in no order.';
revoke execute on function pgq._events_between_sql(integer, pg_snapshot, pg_snapshot, text) from public;
grant execute on function pgq._events_between_sql(integer, pg_snapshot, pg_snapshot, text) to sluice_admin, sluice_reader;
