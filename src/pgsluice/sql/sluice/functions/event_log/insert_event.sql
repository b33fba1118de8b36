-- Name the fourth argument: '1 hour' is otherwise ambiguous between an interval and a time.
create or replace function sluice.insert_event(
    queue_name text, ev_type text, ev_data text, delay interval,
    ev_extra1 text default null, ev_extra2 text default null, ev_extra3 text default null, ev_extra4 text default null
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if delay is null then
        raise exception using
            errcode = '22004',
            message = 'delay is null',
            hint = 'pass the delay of the event, or call pgq.insert_event()';
    end if;
    return sluice._insert_delayed(
        queue_name, ev_type, ev_data, clock_timestamp() + delay, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    );
end;
$$;

comment on function sluice.insert_event(text, text, text, interval, text, text, text, text) is
    'Append one event after a delay; returns null, or its ev_id if the delay is not positive and it was appended immediately.';
revoke execute on function sluice.insert_event(text, text, text, interval, text, text, text, text) from public;
grant execute on function sluice.insert_event(text, text, text, interval, text, text, text, text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;

create or replace function sluice.insert_event(
    queue_name text, ev_type text, ev_data text, at timestamptz,
    ev_extra1 text default null, ev_extra2 text default null, ev_extra3 text default null, ev_extra4 text default null
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if at is null then
        raise exception using
            errcode = '22004',
            message = 'at is null',
            hint = 'pass the time of the event, or call pgq.insert_event()';
    end if;
    return sluice._insert_delayed(queue_name, ev_type, ev_data, at, ev_extra1, ev_extra2, ev_extra3, ev_extra4);
end;
$$;

comment on function sluice.insert_event(text, text, text, timestamptz, text, text, text, text) is
    'Append one event at a future time; returns null, or its ev_id if that time is past and it was appended immediately.';
revoke execute on function sluice.insert_event(text, text, text, timestamptz, text, text, text, text) from public;
grant execute on function sluice.insert_event(text, text, text, timestamptz, text, text, text, text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
