create or replace function sluice.unschedule(name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Waits for a session that is firing it: after the commit no slot is fired.
    delete from sluice.schedule as s where s.name = unschedule.name;
    if not found then
        return false;
    end if;
    perform sluice.note_action('unschedule'::text, null::text, jsonb_build_object('name', name), null::bigint, null::text);
    return true;
end;
$$;

comment on function sluice.unschedule(text) is
    'Drop a schedule; sent messages and events stay. False: it does not exist.';
revoke execute on function sluice.unschedule(text) from public;
grant execute on function sluice.unschedule(text) to sluice_admin;
