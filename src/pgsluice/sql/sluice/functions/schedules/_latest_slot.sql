-- Slots can be asked for forwards only. So the time between is halved again and again: a slot of every minute in eight years
-- takes two dozen questions.
create or replace function sluice._latest_slot(i_schedule sluice.schedule, i_slot timestamptz, i_until timestamptz)
returns timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_latest timestamptz := i_slot;
    v_end timestamptz := i_until;
    v_middle timestamptz;
    v_slot timestamptz := sluice._slot_after(i_schedule, i_slot);
begin
    while v_slot <= i_until loop
        v_latest := v_slot;
        v_middle := to_timestamp((extract(epoch from v_latest) + extract(epoch from v_end)) / 2);
        v_slot := sluice._slot_after(i_schedule, v_middle);
        if v_slot <= i_until then
            v_latest := v_slot;
        else
            v_end := v_middle;
        end if;
        v_slot := sluice._slot_after(i_schedule, v_latest);
    end loop;
    return v_latest;
end;
$$;

comment on function sluice._latest_slot(sluice.schedule, timestamptz, timestamptz) is
    'The last slot of a schedule up to a moment, from one of its slots on: this one, if there is none behind it.';
revoke execute on function sluice._latest_slot(sluice.schedule, timestamptz, timestamptz) from public;
grant execute on function sluice._latest_slot(sluice.schedule, timestamptz, timestamptz) to sluice_admin;
