create or replace function pgq.insert_event(queue_name text, ev_type text, ev_data text)
returns bigint
language sql
set search_path = pg_catalog, pg_temp
as $$
    select pgq.insert_event(queue_name, ev_type, ev_data, null, null, null, null);
$$;

comment on function pgq.insert_event(text, text, text) is
    'Append one event; returns its ev_id. It is delivered after the commit and the tick that follows.';
revoke execute on function pgq.insert_event(text, text, text) from public;
grant execute on function pgq.insert_event(text, text, text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;

create or replace function pgq.insert_event(
    queue_name text, ev_type text, ev_data text,
    ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select pgq.insert_event_raw(
        queue_name, null, now(), null, null,
        ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    );
$$;

comment on function pgq.insert_event(text, text, text, text, text, text, text) is
    'Append one event with its four extra fields; returns its ev_id.';
revoke execute on function pgq.insert_event(text, text, text, text, text, text, text) from public;
grant execute on function pgq.insert_event(text, text, text, text, text, text, text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
