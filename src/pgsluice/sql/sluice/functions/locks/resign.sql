-- A notifier resigns under the lock of its pulse until the end of the transaction: the first heartbeat of the next leader follows
-- this notification.
--
-- Calls: sluice._lock_notifier, sluice.leader. Writes: the sequence of the role, outside of the transaction.
create or replace function sluice.resign(role text, candidate integer)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
as $$
begin
    if role = 'notifier' and not sluice._lock_notifier(true)
        or (select l.candidate from sluice.leader(role) as l) is distinct from candidate
    then
        return false;
    end if;
    perform setval(format('sluice.%I', role || '_turn')::regclass, 1, false);
    if role = 'notifier' and pg_notification_queue_usage() < 0.5 then
        perform pg_notify('sluice.notifier', 'gone');
    end if;
    return true;
end;
$$;

comment on function sluice.resign(text, integer) is
    'Resign as the leader of a role so that another candidate leads immediately, and as notifier tell the listeners; false if this candidate does not lead.';
revoke execute on function sluice.resign(text, integer) from public;
grant execute on function sluice.resign(text, integer) to sluice_admin, sluice_reader;
