/*
 * Fired slots are kept for a day, for inspection and for a clock that is set back. Of the older ones the last slot of a
 * schedule stays, marked: whatever the clock, no slot up to it is sent again.
 *
 * Calls: sluice.fire_schedules. Writes: sluice.schedule_slot.
 */
create or replace function sluice._maintain_schedules(slots_max integer default 10000)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_fired_before timestamptz := clock_timestamp() - interval '1 day';
    v_removed integer;
    v_looked integer;
begin
    return query
        select
            'schedule', s.queue_name, f.error is null,
            format('%s: %s', s.name, coalesce(f.error, format('slot %s fired', f.slot)))
        from sluice.fire_schedules(100) as f
        join sluice.schedule as s on s.name = f.name;

    with old as materialized (
        select fired.name, fired.slot
        from sluice.schedule_slot as fired
        where fired.fired_at < v_fired_before and not fired.earlier_removed
        order by fired.fired_at
        limit slots_max
        for update skip locked
    ),
    marked as (
        update sluice.schedule_slot as fired
        set earlier_removed = true
        from (select old.name, max(old.slot) as slot from old group by old.name) as last
        where fired.name = last.name and fired.slot = last.slot
          and not exists (
              select
              from sluice.schedule_slot as later
              where later.name = fired.name and later.slot > fired.slot and later.earlier_removed
          )
        returning fired.name, fired.slot
    ),
    unmarked as materialized (
        select earlier.name, earlier.slot
        from marked
        join sluice.schedule_slot as earlier on earlier.name = marked.name and earlier.slot < marked.slot
        where earlier.earlier_removed
        for update of earlier skip locked
    ),
    removed as (
        delete from sluice.schedule_slot as fired
        using (select old.* from old union all select unmarked.* from unmarked) as unneeded
        where fired.name = unneeded.name and fired.slot = unneeded.slot
          and not exists (select from marked where marked.name = fired.name and marked.slot = fired.slot)
        returning fired.slot
    )
    select (select count(*) from removed), (select count(*) from old) into v_removed, v_looked;
    if v_removed > 0 then
        task := 'schedule';
        done := true;
        detail := format(
            '%s old slots removed%s', v_removed, case when v_looked >= slots_max then '; the next call goes on' end
        );
        return next;
    end if;
end;
$$;

comment on function sluice._maintain_schedules(integer) is
    'Fire due schedules, and remove rows of slots older than a day, at most slots_max and except the last one of each schedule; returns a row per slot, and one for the removed rows.';
revoke execute on function sluice._maintain_schedules(integer) from public;
grant execute on function sluice._maintain_schedules(integer) to sluice_admin;
