-- For a queue also on the notifier's channel: without heartbeats, a quiet queue could not be distinguished from a stopped
-- notifier or a broken connection. A notification is lost if no session listens, and may be lost if the notification queue is
-- full: listeners also poll.
--
-- Calls: sluice.notify_channel.
create or replace function sluice.listen(queue_name text, kind text default 'queue')
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_channel text := sluice.notify_channel(queue_name, kind);
begin
    if kind = 'queue' then
        listen "sluice.notifier";
    end if;
    if v_channel is not null then
        execute format('listen %I', v_channel);
    end if;
    return v_channel;
end;
$$;

comment on function sluice.listen(text, text) is
    'Listen from the commit on for messages of a queue and for heartbeats of the notifier (channel sluice.notifier; with null only these), for the ticks of an event log, or for settled messages of a queue whose handler keeps results; returns the channel. kind is queue, log or results.';
revoke execute on function sluice.listen(text, text) from public;
grant execute on function sluice.listen(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader, sluice_monitor;
