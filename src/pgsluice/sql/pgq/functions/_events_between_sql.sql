-- Events between two snapshots A and B, where A is the earlier one. In its simplest form:
--
--     where pg_visible_in_snapshot(ev_txid, B) and not pg_visible_in_snapshot(ev_txid, A)
--
-- That reads the whole table. But a transaction that A does not see is either at or above xmax(A), or was in progress
-- at A and is listed in xip(A). So an index on ev_txid needs one range and a few exact ids, whatever the age of the
-- oldest transaction. A transaction's id is in exactly one difference of a chain of snapshots, whenever it commits; ids
-- of rolled back transactions are in none.
--
-- The snapshots are literals in the text, so that the planner sees them and no join with metadata is needed.
--
-- In the range, the function is called for each event only if B lists a transaction of the range: otherwise B sees them all.
--
-- The range can be cut into slices that several sessions read in parallel; the few late commits are in the first slice.
create or replace function pgq._events_between_sql(
    i_queue_id integer, i_after pg_snapshot, i_upto pg_snapshot, i_slice integer default 1, i_slices integer default 1
)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_begin bigint := pg_snapshot_xmax(i_after)::text::bigint;
    v_length bigint := pg_snapshot_xmax(i_upto)::text::bigint - v_begin;
    v_late text;
    v_query text := 'select event.* from pgq.%1$I as event where event.ev_txid >= %2$L::pg_catalog.xid8'
        ' and event.ev_txid < %3$L::pg_catalog.xid8';
begin
    if exists (select from pg_snapshot_xip(i_upto) as open (txid) where open.txid >= pg_snapshot_xmax(i_after)) then
        v_query := v_query || ' and pg_catalog.pg_visible_in_snapshot(event.ev_txid, %4$L::pg_catalog.pg_snapshot)';
    end if;
    if i_slice = 1 then
        -- Late commits: in progress at the first snapshot, committed at the second.
        select string_agg(open.txid::text, ',')
        into v_late
        from pg_snapshot_xip(i_after) as open (txid)
        where pg_visible_in_snapshot(open.txid, i_upto);
    end if;
    if v_late is not null then
        v_query := v_query
            || ' union all select event.* from pgq.%1$I as event where event.ev_txid = any (%5$L::pg_catalog.xid8[])';
    end if;
    return format(
        v_query,
        format('event_%s', i_queue_id),
        v_begin + v_length * (i_slice - 1) / i_slices, v_begin + v_length * i_slice / i_slices,
        i_upto, '{' || v_late || '}'
    );
end;
$$;

comment on function pgq._events_between_sql(integer, pg_snapshot, pg_snapshot, integer, integer) is
    'Return the query for the events, or one slice of them, that the second snapshot sees and the first does not, unordered.';
revoke execute on function pgq._events_between_sql(integer, pg_snapshot, pg_snapshot, integer, integer) from public;
grant execute on function pgq._events_between_sql(integer, pg_snapshot, pg_snapshot, integer, integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
