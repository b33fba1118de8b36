-- A table lock, because a row lock would assign a transaction id, and this is called many times a second. This mode conflicts with itself and with
-- a vacuum of the table, whose rows never change, and not with locks of its rows.
--
-- Security definer: only the owner may lock the table.
create or replace function sluice._lock_notifier(i_waits boolean)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if i_waits then
        lock table sluice.lock in share update exclusive mode;
    else
        lock table sluice.lock in share update exclusive mode nowait;
    end if;
    return true;
exception
    when lock_not_available then
        return false;
end;
$$;

comment on function sluice._lock_notifier(boolean) is
    'Lock the leader election of notifiers until the end of the transaction; false if another notifier holds the lock, immediately or after the lock_timeout.';
revoke execute on function sluice._lock_notifier(boolean) from public;
grant execute on function sluice._lock_notifier(boolean) to sluice_admin, sluice_reader;
