-- A log is quiet without new events, and without a ticker: only a heartbeat distinguishes the two.
create or replace function sluice.ticker_heartbeat(is_gone boolean default false)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- As in pgq._notify_tick.
    if pg_notification_queue_usage() < 0.5 then
        perform pg_notify('sluice.ticker', case when is_gone then 'gone' else '' end);
    end if;
end;
$$;

comment on function sluice.ticker_heartbeat(boolean) is
    'Notify the listeners at the commit that a ticker of all logs is running, or has stopped; sends nothing while the server''s notification queue is half full.';
revoke execute on function sluice.ticker_heartbeat(boolean) from public;
grant execute on function sluice.ticker_heartbeat(boolean) to pgq_admin, sluice_admin;
