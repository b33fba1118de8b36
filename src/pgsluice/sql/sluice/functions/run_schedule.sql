-- It is no slot: those are fired as if this had not been called, and of two calls each sends.
create or replace function sluice.run_schedule(name text)
returns bigint
language sql
set search_path = pg_catalog, pg_temp
as $$
    select sluice._send_scheduled(sluice._require_schedule(name), null);
$$;

comment on function sluice.run_schedule(text) is
    'Send now what a schedule sends, paused or not, beside its slots; returns the msg_id, or the ev_id.';
revoke execute on function sluice.run_schedule(text) from public;
grant execute on function sluice.run_schedule(text) to sluice_admin;
