-- Under the lock of the pulse until the end of the transaction: the first heartbeat of the next leader follows this
-- notification.
--
-- Calls: sluice._lock_notifier. Writes: sluice.notifier_turn, outside of the transaction.
create or replace function sluice.notifier_resign(notifier integer)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
as $$
declare
    v_number_bits constant integer := 20; -- as in sluice.notifier_pulse
    v_number_mask constant bigint := (1::bigint << v_number_bits) - 1;
begin
    if not sluice._lock_notifier(true) or (pg_sequence_last_value('sluice.notifier_turn') & v_number_mask) is distinct from (notifier & v_number_mask) then
        return false;
    end if;
    perform setval('sluice.notifier_turn', 1, false);
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
