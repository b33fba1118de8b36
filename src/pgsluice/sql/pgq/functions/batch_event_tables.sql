create or replace function pgq.batch_event_tables(x_batch_id bigint)
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_log record;
begin
    select q.queue_data_pfx, q.queue_ntables
    into v_log
    from pgq.open_batch as b
    join pgq.queue as q on q.queue_id = b.sub_queue
    where b.batch_id = x_batch_id;
    if not found then
        raise exception using
            errcode = 'PQ003',
            message = format('Cannot find data for batch %s', coalesce(x_batch_id::text, '<NULL>')),
            hint = 'open a batch with pgq.next_batch(); a finished one cannot be read again';
    end if;
    -- All tables: an event stays in the table that was current when its transaction looked it up, whatever was switched
    -- since.
    return query
        select format('%s_%s', v_log.queue_data_pfx, s.number)
        from generate_series(0, v_log.queue_ntables - 1) as s (number);
end;
$$;

comment on function pgq.batch_event_tables(bigint) is
    'List the tables that may hold events of an open batch: every event table of its log.';
revoke execute on function pgq.batch_event_tables(bigint) from public;
grant execute on function pgq.batch_event_tables(bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
