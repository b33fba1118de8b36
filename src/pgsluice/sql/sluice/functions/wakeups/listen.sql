-- Not only on the queue: without the notifier's sign of life nobody could tell a quiet queue from a notifier that died, or
-- from a connection that hears nothing.
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
    'From the commit on, hear when a queue has something to read, and that the notifier lives (channel sluice.notifier; with null nothing else); returns the queue''s channel.';
revoke execute on function sluice.listen(text) from public;
grant execute on function sluice.listen(text) to sluice_admin, sluice_reader, sluice_monitor;
