-- Computed from the slot instead of drawn: every caller gets the same time. In steps of a 2^20th of the jitter.
create or replace function sluice._slot_due_at(i_schedule sluice.schedule, i_slot timestamptz)
returns timestamptz
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select i_slot + i_schedule.jitter
        * ((hashtextextended(i_schedule.name, (extract(epoch from i_slot) * 1000000)::bigint) & 1048575) / 1048576.0)::double precision;
$$;

comment on function sluice._slot_due_at(sluice.schedule, timestamptz) is
    'Return when a slot of a schedule is fired: at the slot, or less than the jitter later, always the same for one slot.';
revoke execute on function sluice._slot_due_at(sluice.schedule, timestamptz) from public;
grant execute on function sluice._slot_due_at(sluice.schedule, timestamptz) to sluice_admin;
