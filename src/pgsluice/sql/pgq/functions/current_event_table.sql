-- For COPY and plain INSERT. The result may be outdated: in REPEATABLE READ, or after a wait. Batches read all of a
-- log's tables, and none is truncated while it holds undelivered events, so late rows are delivered from any table.
create or replace function pgq.current_event_table(x_queue_name text)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue record;
begin
    -- The transaction gets its id before its events get their numbers: see the default of ev_id.
    perform pg_current_xact_id();
    select q.queue_data_pfx, q.queue_cur_table, q.queue_disable_insert
    into v_queue
    from pgq.queue as q
    where q.queue_name = x_queue_name;
    if not found then
        raise exception using
            errcode = 'PQ001',
            table = coalesce(x_queue_name, 'NULL'),
            message = 'Event queue not found',
            detail = format('There is no event log %L.', x_queue_name),
            hint = format('create it with pgq.create_queue(%L)', x_queue_name);
    end if;
    if v_queue.queue_disable_insert and current_setting('session_replication_role') <> 'replica' then
        raise exception using
            errcode = 'PQ004',
            message = 'Writing to queue disabled',
            detail = format('The event log %L is closed for events.', x_queue_name),
            hint = 'set queue_disable_insert to false in pgq.queue';
    end if;
    return format('%s_%s', v_queue.queue_data_pfx, v_queue.queue_cur_table);
end;
$$;

comment on function pgq.current_event_table(text) is
    'Return the table to COPY or INSERT events into in this transaction.';
revoke execute on function pgq.current_event_table(text) from public;
grant execute on function pgq.current_event_table(text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
