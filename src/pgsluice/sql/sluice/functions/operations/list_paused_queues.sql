create or replace function sluice.list_paused_queues()
returns table (queue_name text, paused_at timestamptz, paused_by text, reason text)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select p.queue_name, p.paused_at, p.paused_by, p.reason
    from sluice.queue_pause as p
    order by p.queue_name;
$$;

comment on function sluice.list_paused_queues() is
    'Return the paused queues by name, with the time of the pause, the role and application that paused them, and the reason.';
revoke execute on function sluice.list_paused_queues() from public;
grant execute on function sluice.list_paused_queues() to sluice_admin, sluice_monitor, sluice_reader, sluice_writer;
