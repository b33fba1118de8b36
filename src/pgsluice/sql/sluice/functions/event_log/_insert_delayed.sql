-- pgq._due_retries explains the retry entries and who moves them. The event counts in this transaction, like an immediate one.
create or replace function sluice._insert_delayed(
    queue_name text, ev_type text, ev_data text, due_at timestamptz,
    ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not isfinite(due_at) then
        raise exception using
            errcode = '22023',
            message = format('an event cannot be delayed to %s', due_at),
            hint = 'give a time that will come';
    end if;
    if due_at <= clock_timestamp() then
        return pgq.insert_event(queue_name, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4);
    end if;
    execute format(
        'insert into pgq.%I (
            ev_retry_after, ev_queue, ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
         )
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)',
        format('retry_entry_%s', (pgq._last_retry_pass()).pass_table)
    )
    using due_at, (pgq._admit_events(queue_name, 1::bigint)).queue_id, now(), ev_type, ev_data,
        ev_extra1, ev_extra2, ev_extra3, ev_extra4;
    return null;
end;
$$;

comment on function sluice._insert_delayed(text, text, text, timestamptz, text, text, text, text) is
    'Append one event now and return its ev_id, or store it until it is due and return null.';
revoke execute on function sluice._insert_delayed(text, text, text, timestamptz, text, text, text, text) from public;
grant execute on function sluice._insert_delayed(text, text, text, timestamptz, text, text, text, text) to pgq_admin, sluice_admin;
