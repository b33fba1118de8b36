-- With a jitter, a slot is missed only when the whole jitter is over: until then it is fired in its turn.
create or replace function sluice._slot_to_fire(i_schedule sluice.schedule, i_slot timestamptz, i_now timestamptz)
returns timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_kept_from timestamptz := i_now - i_schedule.catch_up_within;
    v_latest timestamptz;
begin
    if i_schedule.catch_up = 'all' and i_slot >= v_kept_from then
        return i_slot;
    end if;
    v_latest := sluice._latest_slot(i_schedule, i_slot, i_now - i_schedule.jitter);
    if i_schedule.catch_up = 'all' then
        return least(v_latest, greatest(i_slot, sluice._slot_after(i_schedule, v_kept_from)));
    end if;
    return v_latest;
end;
$$;

comment on function sluice._slot_to_fire(sluice.schedule, timestamptz, timestamptz) is
    'The slot of a schedule that is fired when this is the first of several that were missed: itself, or a later one where they are left out.';
revoke execute on function sluice._slot_to_fire(sluice.schedule, timestamptz, timestamptz) from public;
grant execute on function sluice._slot_to_fire(sluice.schedule, timestamptz, timestamptz) to sluice_admin;
