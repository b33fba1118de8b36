-- For a ticker, between two ticks.
--
-- Calls: sluice._wake_groups.
create or replace function sluice.wake_groups()
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select w.logs from sluice._wake_groups() as w;
$$;

comment on function sluice.wake_groups() is
    'Notify the sessions that wait for a claim on a log with new events; returns the number of logs with share groups that this session ticks, of thousands only a part.';
revoke execute on function sluice.wake_groups() from public;
grant execute on function sluice.wake_groups() to pgq_admin, sluice_admin;
