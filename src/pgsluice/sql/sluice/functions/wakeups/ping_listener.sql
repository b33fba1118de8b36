-- Tests the whole way through the server's notification queue: a response of the server does not prove that notifications
-- arrive.
--
-- Calls: sluice.leader.
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
    notifier_age := (select clock_timestamp() - l.called_at from sluice.leader('notifier'::text) as l);
end;
$$;

comment on function sluice.ping_listener() is
    'Listen from the commit on for heartbeats of notifiers and tickers, and notify this session itself on the returned channel; also returns the time since the last poll of a notifier.';
revoke execute on function sluice.ping_listener() from public;
grant execute on function sluice.ping_listener() to sluice_admin, sluice_reader, sluice_monitor;
