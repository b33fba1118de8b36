-- Listens on the notifier's channel too: without heartbeats, a quiet queue could not be distinguished from a stopped
-- notifier or a broken connection.
--
-- Calls: sluice.notify_channel.
create or replace function sluice.listen(queue_name text)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_channel text := sluice.notify_channel(queue_name);
begin
    listen "sluice.notifier";
    if v_channel is not null then
        execute format('listen %I', v_channel);
    end if;
    return v_channel;
end;
$$;

comment on function sluice.listen(text) is
    'Listen from the commit on for messages of a queue and for heartbeats of the notifier (channel sluice.notifier; with null only these); returns the queue''s channel.';
revoke execute on function sluice.listen(text) from public;
grant execute on function sluice.listen(text) to sluice_admin, sluice_reader, sluice_monitor;
