create or replace function pgq.insert_event_raw(
    queue_name text, ev_id bigint, ev_time timestamptz, ev_owner integer, ev_retry integer,
    ev_type text, ev_data text, ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue record;
    v_event_id bigint;
begin
    -- The transaction takes its id before it chooses the table. Chosen the other way round, the table could be
    -- rotated away in between, and the event would be newer than the rotation in a table that no batch reads.
    perform pg_current_xact_id();

    select q.queue_id, q.queue_cur_table, q.queue_event_seq, q.queue_disable_insert
    into v_queue
    from pgq.queue as q
    where q.queue_name = insert_event_raw.queue_name;
    if not found then
        raise exception using
            errcode = 'PQ001',
            message = 'No such queue',
            detail = format('There is no event log %L.', queue_name),
            hint = format('create it with pgq.create_queue(%L)', queue_name);
    end if;
    if v_queue.queue_disable_insert and current_setting('session_replication_role') <> 'replica' then
        raise exception using
            errcode = 'PQ004',
            message = 'Insert into queue disallowed',
            detail = format('The event log %L is closed for events.', queue_name),
            hint = 'set queue_disable_insert to false in pgq.queue';
    end if;

    -- Moved even when the caller brings an id of its own: the ticker sees by this sequence that there are events.
    v_event_id := nextval(v_queue.queue_event_seq::regclass);
    execute format(
        'insert into pgq.%I (ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data,
            ev_extra1, ev_extra2, ev_extra3, ev_extra4)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         returning ev_id',
        format('event_%s_%s', v_queue.queue_id, v_queue.queue_cur_table)
    )
    using coalesce(insert_event_raw.ev_id, v_event_id), coalesce(insert_event_raw.ev_time, now()),
        insert_event_raw.ev_owner, insert_event_raw.ev_retry,
        insert_event_raw.ev_type, insert_event_raw.ev_data,
        insert_event_raw.ev_extra1, insert_event_raw.ev_extra2,
        insert_event_raw.ev_extra3, insert_event_raw.ev_extra4
    into v_event_id;
    return v_event_id;
end;
$$;

comment on function pgq.insert_event_raw(text, bigint, timestamptz, integer, integer, text, text, text, text, text, text) is
    'Append one event with every field under the caller''s control; returns its ev_id.';
revoke execute on function pgq.insert_event_raw(text, bigint, timestamptz, integer, integer, text, text, text, text, text, text) from public;
grant execute on function pgq.insert_event_raw(text, bigint, timestamptz, integer, integer, text, text, text, text, text, text) to pgq_admin, sluice_admin;
