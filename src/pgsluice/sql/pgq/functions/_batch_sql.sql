create or replace function pgq._batch_sql(
    i_queue_id integer, i_owner integer, i_after pg_snapshot, i_upto pg_snapshot,
    i_columns text[] default '{ev_id,ev_time,ev_txid,ev_retry,ev_type,ev_data,ev_extra1,ev_extra2,ev_extra3,ev_extra4}',
    i_after_ev_id bigint default null
)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return format(
        'select %s from (%s) as event where (event.ev_owner is null or event.ev_owner = %s)%s order by event.ev_id',
        pgq._event_columns_sql(i_columns), pgq._events_between_sql(i_queue_id, i_after, i_upto, 1, 1), i_owner,
        case when i_after_ev_id is not null then format(' and event.ev_id > %s', i_after_ev_id) end
    );
end;
$$;

comment on function pgq._batch_sql(integer, integer, pg_snapshot, pg_snapshot, text[], bigint) is
    'Return the query for a batch''s events as its consumer gets them: events for all consumers and those retried for its owner id.';
revoke execute on function pgq._batch_sql(integer, integer, pg_snapshot, pg_snapshot, text[], bigint) from public;
grant execute on function pgq._batch_sql(integer, integer, pg_snapshot, pg_snapshot, text[], bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
