-- Slots during the pause are skipped, and not counted as missed. A schedule that its app does not declare any more is by
-- hand from now on, so that the next start of the app does not pause it again.
create or replace function sluice.resume_schedule(name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice._require_schedule(name);
    update sluice.schedule as s
    set paused_at = null,
        undeclared_at = null,
        declared_by = case when s.undeclared_at is null then s.declared_by end,
        looked_at = clock_timestamp(),
        (next_slot, due_at) = (
            select n.slot, sluice._slot_due_at(s, n.slot)
            from sluice._slot_after(s, clock_timestamp()) as n (slot)
        )
    where s.name = resume_schedule.name and s.paused_at is not null;
    if not found then
        return false;
    end if;
    perform sluice.note_action('resume_schedule'::text, null::text, jsonb_build_object('name', name), null::bigint, null::text);
    return true;
end;
$$;

comment on function sluice.resume_schedule(text) is
    'Resume a paused schedule with the first slot from now on; false: it is not paused.';
revoke execute on function sluice.resume_schedule(text) from public;
grant execute on function sluice.resume_schedule(text) to sluice_admin;
