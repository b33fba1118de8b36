-- Independent of slots: these are fired as if this had not been called, and each of two calls sends.
--
-- Calls: sluice._require_schedule, sluice._send_scheduled.
create or replace function sluice.run_schedule(name text)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule sluice.schedule := sluice._require_schedule(name);
begin
    if v_schedule.target = 'queue' then
        -- So that the error names a missing queue.
        perform sluice._registered_name(v_schedule.queue_name);
    end if;
    perform sluice.note_action(
        'run_schedule'::text, v_schedule.queue_name::text, jsonb_build_object('name', name), 1::bigint, null::text
    );
    return sluice._send_scheduled(v_schedule, null::timestamptz);
end;
$$;

comment on function sluice.run_schedule(text) is
    'Send the message or event of a schedule now, paused or not, in addition to its slots; returns the msg_id or ev_id.';
revoke execute on function sluice.run_schedule(text) from public;
grant execute on function sluice.run_schedule(text) to sluice_admin;
