-- Slots can only be computed forwards. So the time up to the present is bisected: a slot of every minute in eight years takes
-- two dozen steps.
--
-- With a jitter, a slot is missed only after the whole jitter: until then it is fired in order.
create or replace function sluice._slot_to_fire(i_schedule sluice.schedule, i_slot timestamptz, i_now timestamptz)
returns timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_kept_from timestamptz := i_now - i_schedule.catch_up_within;
    v_until timestamptz := i_now - i_schedule.jitter;
    v_latest timestamptz := i_slot;
    v_end timestamptz := v_until;
    v_middle timestamptz;
    v_slot timestamptz;
begin
    if i_schedule.catch_up = 'all' and i_slot >= v_kept_from then
        return i_slot;
    end if;
    v_slot := sluice._next_slot(i_schedule, i_slot);
    while v_slot <= v_until loop
        v_latest := v_slot;
        v_middle := to_timestamp((extract(epoch from v_latest) + extract(epoch from v_end)) / 2);
        v_slot := sluice._next_slot(i_schedule, v_middle);
        if v_slot <= v_until then
            v_latest := v_slot;
        else
            v_end := v_middle;
        end if;
        v_slot := sluice._next_slot(i_schedule, v_latest);
    end loop;
    if i_schedule.catch_up = 'all' then
        return least(v_latest, greatest(i_slot, sluice._next_slot(i_schedule, v_kept_from)));
    end if;
    return v_latest;
end;
$$;

comment on function sluice._slot_to_fire(sluice.schedule, timestamptz, timestamptz) is
    'Return the slot of a schedule to fire if this is the first of several missed ones: itself, or a later one if missed slots are skipped.';
revoke execute on function sluice._slot_to_fire(sluice.schedule, timestamptz, timestamptz) from public;
grant execute on function sluice._slot_to_fire(sluice.schedule, timestamptz, timestamptz) to sluice_admin;
