-- Called when a worker starts. A schedule that was paused by hand stays as it is.
--
-- Calls: sluice.note_action. Writes: sluice.schedule.
create or replace function sluice.retire_schedules(declared_by text, names text[])
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name text;
begin
    for v_name in
        select s.name
        from sluice.schedule as s
        where s.declared_by = retire_schedules.declared_by
            and s.name <> all (names)
            and s.paused_at is null
        order by s.name
        for update
    loop
        update sluice.schedule as s
        set paused_at = clock_timestamp(), undeclared_at = clock_timestamp(), next_slot = null, due_at = null, error = null
        where s.name = v_name;
        perform sluice.note_action(
            'pause_schedule'::text, null::text, jsonb_build_object('name', v_name), null::bigint, null::text
        );
        return next v_name;
    end loop;
end;
$$;

comment on function sluice.retire_schedules(text, text[]) is
    'Pause the schedules that an app declared earlier and that are not among the given names; returns their names. Declaring one again resumes it.';
revoke execute on function sluice.retire_schedules(text, text[]) from public;
grant execute on function sluice.retire_schedules(text, text[]) to sluice_admin;
