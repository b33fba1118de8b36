create or replace function pgq.maint_retry_events()
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select pgq._move_retries(5000); -- a second's work at the most
$$;

comment on function pgq.maint_retry_events() is
    'Put events whose time has come back into their logs, some thousands at a time; returns how many: call it until it returns 0.';
revoke execute on function pgq.maint_retry_events() from public;
grant execute on function pgq.maint_retry_events() to pgq_admin, sluice_admin;
