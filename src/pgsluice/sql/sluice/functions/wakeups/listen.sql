-- For a queue also on the notifier's channel: without heartbeats, a quiet queue could not be distinguished from a stopped
-- notifier or a broken connection. A notification is lost if no session listens, and may be lost if the notification queue is
-- full: listeners also poll.
--
-- Calls: sluice.notify_channel.
create or replace function sluice.listen(queue_name text, is_log boolean default false)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_channel text := sluice.notify_channel(queue_name, is_log);
begin
    if not is_log then
        listen "sluice.notifier";
    end if;
    if v_channel is not null then
        execute format('listen %I', v_channel);
    end if;
    return v_channel;
end;
$$;

comment on function sluice.listen(text, boolean) is
    'Listen from the commit on for messages of a queue and for heartbeats of the notifier (channel sluice.notifier; with null only these), or for the ticks of an event log; returns the channel.';
revoke execute on function sluice.listen(text, boolean) from public;
grant execute on function sluice.listen(text, boolean) to pgq_admin, pgq_reader, sluice_admin, sluice_reader, sluice_monitor;
