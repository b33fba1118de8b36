-- Fired slots are kept for a day: long enough for a clock that is set back, and for inspection.
--
-- Calls: sluice.fire_schedules. Writes: sluice.schedule_slot.
create or replace function sluice._maintain_schedules(slots_max integer default 10000)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_fired_before timestamptz := clock_timestamp() - interval '1 day';
    v_removed integer;
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
        where fired.fired_at < v_fired_before
        order by fired.fired_at
        limit slots_max
        for update skip locked
    )
    delete from sluice.schedule_slot as fired
    using old
    where fired.name = old.name and fired.slot = old.slot;
    get diagnostics v_removed = row_count;
    if v_removed > 0 then
        task := 'schedule';
        done := true;
        detail := format(
            '%s old slots removed%s', v_removed, case when v_removed >= slots_max then '; the next call goes on' end
        );
        return next;
    end if;
end;
$$;

comment on function sluice._maintain_schedules(integer) is
    'Fire due schedules, and remove rows of slots older than a day, at most slots_max; returns a row per slot, and one for the removed rows.';
revoke execute on function sluice._maintain_schedules(integer) from public;
grant execute on function sluice._maintain_schedules(integer) to sluice_admin;
