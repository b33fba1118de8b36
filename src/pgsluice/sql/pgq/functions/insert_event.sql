-- Most programs insert events one by one, so this is one function with two statements. The insert is dynamic, because
-- its table is known only at run time, and planned at each call: it names every value, as defaults would be read from
-- the catalog and parsed with each plan.
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
    -- The transaction gets its id before the event gets its number: the numbers that a tick has counted then belong to
    -- transactions that its snapshot knows.
    v_txid constant xid8 := pg_current_xact_id();
    v_queue_id integer;
    v_segment integer;
    v_event_seq text;
    v_event_id bigint;
begin
    select q.queue_id, q.queue_cur_table, q.queue_event_seq
    into v_queue_id, v_segment, v_event_seq
    from pgq.queue as q
    where q.queue_name = insert_event.queue_name and not q.queue_disable_insert and q.queue_per_tx_limit is null;
    if not found then
        select q.queue_id, q.queue_cur_table, q.queue_event_seq
        into v_queue_id, v_segment, v_event_seq
        from pgq._admit_events(queue_name, 1::bigint) as q;
    end if;

    v_event_id := nextval(v_event_seq::regclass);
    execute format(
        'insert into pgq.event_%s_%s (ev_id, ev_time, ev_txid, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)',
        v_queue_id, v_segment
    )
    using v_event_id, now(), v_txid, insert_event.ev_type, insert_event.ev_data,
        insert_event.ev_extra1, insert_event.ev_extra2, insert_event.ev_extra3, insert_event.ev_extra4;
    return v_event_id;
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
