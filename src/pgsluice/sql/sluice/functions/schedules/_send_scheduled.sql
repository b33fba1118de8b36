-- Calls: pgmq._require_no_foreign_code, pgmq.send or pgq.insert_event. Writes: the queue or the log.
create or replace function sluice._send_scheduled(i_schedule sluice.schedule, i_slot timestamptz)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- The same text in every session: to_jsonb() would use the time zone of the session.
    v_slot text := to_char(i_slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"');
begin
    if i_schedule.target = 'log' then
        return pgq.insert_event(
            i_schedule.queue_name, i_schedule.event ->> 'ev_type', i_schedule.event ->> 'ev_data',
            i_schedule.event ->> 'ev_extra1', i_schedule.event ->> 'ev_extra2',
            i_schedule.event ->> 'ev_extra3', i_schedule.event ->> 'ev_extra4'
        );
    end if;
    -- Triggers of a queue that another role owns would run with the rights of the role that fires schedules.
    perform pgmq._require_no_foreign_code(
        to_regclass(format('pgmq.%I', pgmq.format_table_name(i_schedule.queue_name, 'q')))
    );
    return pgmq.send(
        i_schedule.queue_name, i_schedule.message,
        coalesce(i_schedule.headers, '{}')
            || jsonb_build_object('x-pgmq-schedule', jsonb_build_object('name', i_schedule.name, 'slot', v_slot))
    );
end;
$$;

comment on function sluice._send_scheduled(sluice.schedule, timestamptz) is
    'Send the message or event of a schedule, for a slot or for none (null); returns the msg_id or ev_id.';
revoke execute on function sluice._send_scheduled(sluice.schedule, timestamptz) from public;
grant execute on function sluice._send_scheduled(sluice.schedule, timestamptz) to sluice_admin;
