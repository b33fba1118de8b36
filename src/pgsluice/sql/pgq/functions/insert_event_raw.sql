create or replace function pgq.insert_event_raw(
    queue_name text, ev_id bigint, ev_time timestamptz, ev_owner integer, ev_retry integer,
    ev_type text, ev_data text, ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_txid constant xid8 := pg_current_xact_id(); -- before the number, as in pgq.insert_event
    v_queue_id integer;
    v_segment integer;
    v_event_seq text;
    v_event_id bigint;
begin
    select q.queue_id, q.queue_cur_table, q.queue_event_seq
    into v_queue_id, v_segment, v_event_seq
    from pgq.queue as q
    where q.queue_name = insert_event_raw.queue_name and not q.queue_disable_insert and q.queue_per_tx_limit is null;
    if not found then
        select q.queue_id, q.queue_cur_table, q.queue_event_seq
        into v_queue_id, v_segment, v_event_seq
        from pgq._admit_events(queue_name, 1::bigint) as q;
    end if;

    -- Advanced even if the caller passes its own id: the sequence tells the ticker that there are events.
    v_event_id := nextval(v_event_seq::regclass);
    v_event_id := coalesce(insert_event_raw.ev_id, v_event_id);
    execute format(
        'insert into pgq.event_%s_%s (ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data,
            ev_extra1, ev_extra2, ev_extra3, ev_extra4)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)',
        v_queue_id, v_segment
    )
    using v_event_id, coalesce(insert_event_raw.ev_time, now()), v_txid,
        insert_event_raw.ev_owner, insert_event_raw.ev_retry,
        insert_event_raw.ev_type, insert_event_raw.ev_data,
        insert_event_raw.ev_extra1, insert_event_raw.ev_extra2,
        insert_event_raw.ev_extra3, insert_event_raw.ev_extra4;
    return v_event_id;
end;
$$;

comment on function pgq.insert_event_raw(text, bigint, timestamptz, integer, integer, text, text, text, text, text, text) is
    'Append one event with all its fields; returns its ev_id.';
revoke execute on function pgq.insert_event_raw(text, bigint, timestamptz, integer, integer, text, text, text, text, text, text) from public;
grant execute on function pgq.insert_event_raw(text, bigint, timestamptz, integer, integer, text, text, text, text, text, text) to pgq_admin, sluice_admin;
