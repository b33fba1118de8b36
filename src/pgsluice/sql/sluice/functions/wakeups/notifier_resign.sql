-- Under the lock of the pulse until the end of the transaction: the first heartbeat of the next leader follows this
-- notification.
--
-- Calls: sluice._lock_notifier, sluice.resign.
create or replace function sluice.notifier_resign(notifier integer)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
as $$
begin
    if not (sluice._lock_notifier(true) and sluice.resign('notifier'::text, notifier)) then
        return false;
    end if;
    if pg_notification_queue_usage() < 0.5 then
        perform pg_notify('sluice.notifier', 'gone');
    end if;
    return true;
end;
$$;

comment on function sluice.notifier_resign(integer) is
    'Resign so that another notifier leads immediately, and notify the listeners; false if this one does not lead.';
revoke execute on function sluice.notifier_resign(integer) from public;
grant execute on function sluice.notifier_resign(integer) to sluice_admin, sluice_reader;
