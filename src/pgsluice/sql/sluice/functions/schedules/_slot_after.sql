-- Slots of an interval are starts_at plus whole multiples, in numeric, so that no error accumulates.
create or replace function sluice._slot_after(i_schedule sluice.schedule, i_after timestamptz)
returns timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_after timestamptz := greatest(i_after, i_schedule.starts_at - interval '1 microsecond');
    v_slot timestamptz;
begin
    if i_schedule.cron is not null then
        v_slot := sluice._next_slot(i_schedule.cron, i_schedule.time_zone, v_after);
    else
        v_slot := i_schedule.starts_at + i_schedule.every * (
            floor(extract(epoch from v_after - i_schedule.starts_at) / extract(epoch from i_schedule.every)) + 1
        )::double precision;
    end if;
    return case when i_schedule.ends_at is null or v_slot < i_schedule.ends_at then v_slot end;
end;
$$;

comment on function sluice._slot_after(sluice.schedule, timestamptz) is
    'Return the first slot of a schedule after a moment; null: none.';
revoke execute on function sluice._slot_after(sluice.schedule, timestamptz) from public;
grant execute on function sluice._slot_after(sluice.schedule, timestamptz) to sluice_admin;
