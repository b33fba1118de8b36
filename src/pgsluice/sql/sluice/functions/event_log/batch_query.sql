-- Rows of a query stream to its client; those of a function are collected first and then sent, which takes twice as long.
-- With a cursor, a batch of any size takes little memory on both sides.
create or replace function sluice.batch_query(batch_id bigint, columns text[], after_ev_id bigint default null)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_query text;
begin
    if cardinality(columns) = 0 or array_position(columns, null) is not null or columns is null then
        raise exception using
            errcode = '22004',
            message = 'columns is null, is empty or has a null in it',
            hint = 'name the columns of events that are wanted, such as ev_id, ev_type and ev_data';
    end if;
    select pgq._batch_sql(b.sub_queue, b.sub_id, b.pos_last_snapshot, b.pos_next_snapshot, columns, after_ev_id)
    into v_query
    from pgq.open_batch as b
    where b.batch_id = batch_query.batch_id;
    if not found then
        raise exception using
            errcode = 'PQ003',
            message = 'batch not found',
            detail = format('The batch id is %s.', batch_id),
            hint = 'open a batch with pgq.next_batch(); a finished one cannot be read again';
    end if;
    return v_query;
end;
$$;

comment on function sluice.batch_query(bigint, text[], bigint) is
    'Return a query for the given columns of an open batch''s events, by ev_id: of the events after an ev_id, or of all.';
revoke execute on function sluice.batch_query(bigint, text[], bigint) from public;
grant execute on function sluice.batch_query(bigint, text[], bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
