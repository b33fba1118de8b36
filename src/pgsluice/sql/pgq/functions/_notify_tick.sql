-- One notification per tick, or per check between two ticks (sluice.wake_groups), and none by producers: their commits
-- would queue for a server-wide lock.
create or replace function pgq._notify_tick(i_queue_id integer, i_tick_id bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- The notification queue is full if a listener sleeps in a transaction, and then a commit with a notification
    -- fails. Ticks must not fail; listeners also poll.
    if pg_notification_queue_usage() < 0.5 then
        perform pg_notify(format('sluice.log_%s', i_queue_id), i_tick_id::text);
    end if;
end;
$$;

comment on function pgq._notify_tick(integer, bigint) is
    'Notify a log''s channel of a tick, or with null that there are events to claim; skipped while the notification queue is half full.';
revoke execute on function pgq._notify_tick(integer, bigint) from public;
grant execute on function pgq._notify_tick(integer, bigint) to pgq_admin, sluice_admin;
