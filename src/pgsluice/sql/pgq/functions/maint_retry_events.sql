create or replace function pgq.maint_retry_events()
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select pgq._move_retries(5000); -- about a second of work
$$;

comment on function pgq.maint_retry_events() is
    'Move due events into their logs, some thousands per call; returns their number: call it until it returns 0.';
revoke execute on function pgq.maint_retry_events() from public;
grant execute on function pgq.maint_retry_events() to pgq_admin, sluice_admin;
