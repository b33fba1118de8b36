-- Slots during the pause are skipped, and not counted as missed. A schedule that its app does not declare any more is by
-- hand once it is resumed, so that the next start of the app does not pause it again.
create or replace function sluice.pause_schedule(name text, is_paused boolean default true)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    perform sluice._require_schedule(name);
    -- Waits for a session that is firing it.
    update sluice.schedule as s
    set paused_at = case when is_paused then v_now end,
        undeclared_at = case when is_paused then s.undeclared_at end,
        declared_by = case when is_paused or s.undeclared_at is null then s.declared_by end,
        looked_at = case when is_paused then s.looked_at else v_now end,
        error = case when not is_paused then s.error end,
        (next_slot, due_at) = (
            select n.slot, sluice._slot_due_at(s, n.slot)
            from (select case when not is_paused then sluice._next_slot(s, v_now) end) as n (slot)
        )
    where s.name = pause_schedule.name and (s.paused_at is null) = is_paused;
    if not found then
        return false;
    end if;
    perform sluice.note_action(
        case when is_paused then 'pause_schedule' else 'resume_schedule' end, null::text, jsonb_build_object('name', name), null::bigint,
        null::text
    );
    return true;
end;
$$;

comment on function sluice.pause_schedule(text, boolean) is
    'Pause a schedule from the commit on, until it is resumed, with is_paused false, with the first slot from then on; false: it is so already.';
revoke execute on function sluice.pause_schedule(text, boolean) from public;
grant execute on function sluice.pause_schedule(text, boolean) to sluice_admin;
