-- A dropped log sends no notifications, so it is not an error.
--
-- Calls: sluice.log_channel.
create or replace function sluice.unlisten_log(queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from pgq.queue as q where q.queue_name = unlisten_log.queue_name) then
        execute format('unlisten %I', sluice.log_channel(queue_name));
    end if;
end;
$$;

comment on function sluice.unlisten_log(text) is
    'Stop listening for the ticks of an event log from the commit on; does nothing if the log does not exist.';
revoke execute on function sluice.unlisten_log(text) from public;
grant execute on function sluice.unlisten_log(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
