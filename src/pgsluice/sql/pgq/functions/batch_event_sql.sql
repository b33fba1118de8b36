-- The client streams the rows of this query; the rows of a function are collected before they are sent, which takes
-- twice as long.
create or replace function pgq.batch_event_sql(x_batch_id bigint)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_query text;
begin
    select pgq._batch_sql(b.sub_queue, b.sub_id, b.pos_last_snapshot, b.pos_next_snapshot, '{ev_id,ev_time,ev_txid,ev_retry,ev_type,ev_data,ev_extra1,ev_extra2,ev_extra3,ev_extra4}'::text[], null::bigint)
    into v_query
    from pgq.open_batch as b
    where b.batch_id = x_batch_id;
    if not found then
        raise exception using
            errcode = 'PQ003',
            message = 'batch not found',
            detail = format('The batch id is %s.', x_batch_id),
            hint = 'open a batch with pgq.next_batch(); a finished one cannot be read again';
    end if;
    return v_query;
end;
$$;

comment on function pgq.batch_event_sql(bigint) is
    'Return the query for the events of an open batch, by ev_id, valid while the log keeps them.';
revoke execute on function pgq.batch_event_sql(bigint) from public;
grant execute on function pgq.batch_event_sql(bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
