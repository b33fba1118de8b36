-- Most programs insert events one by one, so this has as few statements as possible.
create or replace function pgq.insert_event(
    queue_name text, ev_type text, ev_data text,
    ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_segment integer;
begin
    select q.queue_id, q.queue_cur_table
    into v_queue_id, v_segment
    from pgq.queue as q
    where q.queue_name = insert_event.queue_name and not q.queue_disable_insert and q.queue_per_tx_limit is null;
    if not found then
        select q.queue_id, q.queue_cur_table
        into v_queue_id, v_segment
        from pgq._admit_events(queue_name, 1::bigint) as q;
    end if;
    return pgq._append_event(
        v_queue_id, v_segment, pg_current_xact_id(), ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    );
end;
$$;

comment on function pgq.insert_event(text, text, text, text, text, text, text) is
    'Append one event with its four extra fields; returns its ev_id.';
revoke execute on function pgq.insert_event(text, text, text, text, text, text, text) from public;
grant execute on function pgq.insert_event(text, text, text, text, text, text, text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;

-- Without a pinned search_path, so that the planner inlines it at no cost. The body was parsed at creation: the
-- search path cannot change what it calls.
create or replace function pgq.insert_event(queue_name text, ev_type text, ev_data text)
returns bigint
language sql
return pgq.insert_event(queue_name, ev_type, ev_data, null, null, null, null);

comment on function pgq.insert_event(text, text, text) is
    'Append one event; returns its ev_id. It is delivered after the commit and the following tick.';
revoke execute on function pgq.insert_event(text, text, text) from public;
grant execute on function pgq.insert_event(text, text, text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
