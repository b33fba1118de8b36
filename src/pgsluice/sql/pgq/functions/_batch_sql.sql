create or replace function pgq._batch_sql(i_queue_id integer, i_owner integer, i_after pg_snapshot, i_upto pg_snapshot)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    -- xid8 is unknown to PgQ's clients: its number is a bigint.
    return format(
        'select ev_id, ev_time, ev_txid::pg_catalog.text::pg_catalog.int8 as ev_txid, ev_retry, ev_type, ev_data,'
        ' ev_extra1, ev_extra2, ev_extra3, ev_extra4'
        ' from (%s) as event where ev_owner is null or ev_owner = %s order by ev_id',
        pgq._events_between_sql(i_queue_id, i_after, i_upto), i_owner
    );
end;
$$;

comment on function pgq._batch_sql(integer, integer, pg_snapshot, pg_snapshot) is
    'The text of the query for a batch''s events, as its consumer gets them: those of everybody and those repeated for its owner id.';
revoke execute on function pgq._batch_sql(integer, integer, pg_snapshot, pg_snapshot) from public;
grant execute on function pgq._batch_sql(integer, integer, pg_snapshot, pg_snapshot) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
