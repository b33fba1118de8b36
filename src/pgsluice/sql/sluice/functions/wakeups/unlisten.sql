-- A dropped log sends no notifications, so it is not an error.
create or replace function sluice.unlisten(queue_name text, is_log boolean default false)
returns void
language plpgsql
strict
set search_path = pg_catalog, pg_temp
as $$
begin
    if not is_log or exists (select from pgq.queue as q where q.queue_name = unlisten.queue_name) then
        execute format('unlisten %I', sluice.notify_channel(queue_name, is_log));
    end if;
end;
$$;

comment on function sluice.unlisten(text, boolean) is
    'Stop listening for a queue, or for an event log, from the commit on; does nothing if the log does not exist.';
revoke execute on function sluice.unlisten(text, boolean) from public;
grant execute on function sluice.unlisten(text, boolean) to pgq_admin, pgq_reader, sluice_admin, sluice_reader, sluice_monitor;
