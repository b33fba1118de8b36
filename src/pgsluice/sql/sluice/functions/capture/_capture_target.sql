-- The transaction takes its id before its events take their numbers. A snapshot older than a rotation shows the table before it: that
-- is read too.
create or replace function sluice._capture_target(log_name text, queue_id integer, out event_table text, out event_seq regclass)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue record;
begin
    perform pg_current_xact_id();
    select q.queue_id, q.queue_cur_table, q.queue_event_seq, q.queue_disable_insert
    into v_queue
    from pgq.queue as q
    where q.queue_name = _capture_target.log_name;
    -- A snapshot older than the log does not show it. Its first table can be found by its name.
    if not found
        and current_setting('transaction_isolation') <> 'read committed'
        and to_regclass(format('pgq.event_%s_0', queue_id)) is not null
    then
        event_table := format('event_%s_0', queue_id);
        event_seq := to_regclass(format('pgq.event_%s_id_seq', queue_id));
        return;
    elsif v_queue.queue_id is null then
        raise exception using
            errcode = 'PQ001',
            message = format('event log %L does not exist', log_name),
            detail = 'Changes of this table are captured into it.',
            hint = format('create it with pgq.create_queue(%L), or stop the capture with sluice.drop_capture', log_name);
    end if;
    if v_queue.queue_disable_insert and current_setting('session_replication_role') <> 'replica' then
        raise exception using
            errcode = 'PQ004',
            message = 'Insert into queue disallowed',
            detail = format('The event log %L is closed for events, and changes of this table are captured into it.', log_name),
            hint = 'set queue_disable_insert to false in pgq.queue, or stop the capture with sluice.drop_capture';
    end if;
    event_table := format('event_%s_%s', v_queue.queue_id, v_queue.queue_cur_table);
    event_seq := v_queue.queue_event_seq::regclass;
end;
$$;

comment on function sluice._capture_target(text, integer) is
    'Return the table and the sequence with which this transaction appends events to a log.';
revoke execute on function sluice._capture_target(text, integer) from public;
grant execute on function sluice._capture_target(text, integer) to pgq_admin, sluice_admin;
