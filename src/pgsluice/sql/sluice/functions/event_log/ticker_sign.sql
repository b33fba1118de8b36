-- A log is quiet when nothing happens in it, and when nobody ticks: without a sign of life nobody could tell the two apart.
create or replace function sluice.ticker_sign(is_gone boolean default false)
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

comment on function sluice.ticker_sign(boolean) is
    'At the commit tell the listeners that a process which ticks all logs is at work, or that it is gone; says nothing while the server''s queue of notifications is half full.';
revoke execute on function sluice.ticker_sign(boolean) from public;
grant execute on function sluice.ticker_sign(boolean) to pgq_admin, sluice_admin;
