create or replace function sluice.pause_schedule(name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice._require_schedule(name);
    -- Waits for a session that is firing it.
    update sluice.schedule as s
    set paused_at = clock_timestamp(), next_slot = null, due_at = null, error = null
    where s.name = pause_schedule.name and s.paused_at is null;
    if not found then
        return false;
    end if;
    perform sluice.note_action('pause_schedule'::text, null::text, jsonb_build_object('name', name), null::bigint, null::text);
    return true;
end;
$$;

comment on function sluice.pause_schedule(text) is
    'Pause a schedule from the commit on, until it is resumed; false: it is paused already.';
revoke execute on function sluice.pause_schedule(text) from public;
grant execute on function sluice.pause_schedule(text) to sluice_admin;
