-- The whole way, through the server's queue of notifications: that the server answers does not tell whether notifications arrive.
--
-- Calls: sluice.notifier_age.
create or replace function sluice.ping_listener(out channel text, out notifier_age interval)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    listen "sluice.notifier";
    listen "sluice.ticker";
    channel := format('sluice.listener_%s', pg_backend_pid());
    execute format('listen %I', channel);
    if pg_notification_queue_usage() < 0.5 then
        perform pg_notify(channel, '');
    end if;
    notifier_age := sluice.notifier_age();
end;
$$;

comment on function sluice.ping_listener() is
    'From the commit on, hear the signs of life of notifiers and tickers; and notify this session itself, on the channel that is returned with the age of the last notifier''s look.';
revoke execute on function sluice.ping_listener() from public;
grant execute on function sluice.ping_listener() to sluice_admin, sluice_reader, sluice_monitor;
