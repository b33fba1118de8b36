-- Name the fourth argument: '1 hour' is otherwise ambiguous between an interval and a time.
create or replace function sluice.insert_event(
    log_name text, ev_type text, ev_data text, delay interval,
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
    return sluice.insert_event(
        log_name, ev_type, ev_data, clock_timestamp() + delay, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    );
end;
$$;

comment on function sluice.insert_event(text, text, text, interval, text, text, text, text) is
    'Append one event after a delay; returns null, or its ev_id if the delay is not positive and it was appended immediately.';
revoke execute on function sluice.insert_event(text, text, text, interval, text, text, text, text) from public;
grant execute on function sluice.insert_event(text, text, text, interval, text, text, text, text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;

-- pgq._due_retries explains the retry entries and who moves them. The event counts in this transaction, like an immediate one.
create or replace function sluice.insert_event(
    log_name text, ev_type text, ev_data text, at timestamptz,
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
    if not isfinite(at) then
        raise exception using
            errcode = '22023',
            message = format('an event cannot be delayed to %s', at),
            hint = 'give a time that will come';
    end if;
    if at <= clock_timestamp() then
        return pgq.insert_event(log_name, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4);
    end if;
    execute format(
        'insert into pgq.%I (
            ev_retry_after, ev_queue, ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
         )
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)',
        format('retry_entry_%s', (pgq._last_retry_pass()).pass_table)
    )
    using at, (pgq._admit_events(log_name, 1::bigint)).queue_id, now(), ev_type, ev_data,
        ev_extra1, ev_extra2, ev_extra3, ev_extra4;
    return null;
end;
$$;

comment on function sluice.insert_event(text, text, text, timestamptz, text, text, text, text) is
    'Append one event at a future time; returns null, or its ev_id if that time is past and it was appended immediately.';
revoke execute on function sluice.insert_event(text, text, text, timestamptz, text, text, text, text) from public;
grant execute on function sluice.insert_event(text, text, text, timestamptz, text, text, text, text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
