create or replace function sluice.next_schedule_at()
returns timestamptz
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select min(s.due_at) from sluice.schedule as s;
$$;

comment on function sluice.next_schedule_at() is
    'Return when the next schedule is or was due; null: none.';
revoke execute on function sluice.next_schedule_at() from public;
grant execute on function sluice.next_schedule_at() to sluice_admin, sluice_reader;
