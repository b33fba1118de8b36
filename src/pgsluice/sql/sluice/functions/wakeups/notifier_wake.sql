-- Calls: sluice.notify_channel.
create or replace function sluice.notifier_wake(queue_names text[], heartbeat boolean default false)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Where PostgreSQL begins to warn. When the queue of notifications is full, no session that notifies can commit.
    v_usage_max constant double precision := 0.5;
    v_channels text[];
begin
    if pg_notification_queue_usage() >= v_usage_max then
        return 0;
    end if;
    v_channels := array(select distinct sluice.notify_channel(woken.queue_name) from unnest(queue_names) as woken (queue_name));
    if heartbeat then
        v_channels := v_channels || 'sluice.notifier'::text;
    end if;
    perform pg_notify(channel, '') from unnest(v_channels) as channel;
    return cardinality(v_channels);
end;
$$;

comment on function sluice.notifier_wake(text[], boolean) is
    'At the commit wake the listeners of these queues, and with heartbeat tell all that the notifier lives; returns how many channels were notified, 0 while the server''s queue of notifications is half full.';
revoke execute on function sluice.notifier_wake(text[], boolean) from public;
grant execute on function sluice.notifier_wake(text[], boolean) to sluice_admin, sluice_reader;
