-- A notification is lost if no session listens, and may be lost if the notification queue is full: listeners also poll.
--
-- Calls: sluice.log_channel.
create or replace function sluice.listen_log(queue_name text)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_channel text := sluice.log_channel(queue_name);
begin
    execute format('listen %I', v_channel);
    return v_channel;
end;
$$;

comment on function sluice.listen_log(text) is
    'Listen from the commit on for the ticks of an event log; returns the channel.';
revoke execute on function sluice.listen_log(text) from public;
grant execute on function sluice.listen_log(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
