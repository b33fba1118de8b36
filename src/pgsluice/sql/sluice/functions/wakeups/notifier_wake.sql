-- Calls: sluice.notify_channel.
create or replace function sluice.notifier_wake(queue_names text[], heartbeat boolean default false)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- The level at which PostgreSQL warns. If the notification queue is full, no session that notifies can commit.
    v_usage_max constant double precision := 0.5;
    v_channels text[];
begin
    if pg_notification_queue_usage() >= v_usage_max then
        return 0;
    end if;
    v_channels := array(select distinct sluice.notify_channel(woken.queue_name, 'queue'::text) from unnest(queue_names) as woken (queue_name));
    if heartbeat then
        v_channels := v_channels || 'sluice.notifier'::text;
    end if;
    perform pg_notify(channel, '') from unnest(v_channels) as channel;
    return cardinality(v_channels);
end;
$$;

comment on function sluice.notifier_wake(text[], boolean) is
    'Notify the listeners of these queues at the commit, and with heartbeat send a heartbeat to all; returns the number of channels notified, 0 while the server''s notification queue is half full.';
revoke execute on function sluice.notifier_wake(text[], boolean) from public;
grant execute on function sluice.notifier_wake(text[], boolean) to sluice_admin, sluice_reader;
