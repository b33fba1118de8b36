-- A row lock needs privileges, unlike an advisory lock. No row is ever updated, so there are no dead rows.
--
-- Security definer: only the owner may lock the rows.
create or replace function sluice._try_lock(i_class integer, i_id integer)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lock_timeout_before constant text := current_setting('lock_timeout');
    v_is_mine boolean;
begin
    perform from sluice.lock as l where l.class = i_class and l.id = i_id for update skip locked;
    if found then
        return true;
    end if;
    perform from sluice.lock as l where l.class = i_class and l.id = i_id;
    if found then
        return false; -- another transaction holds it
    end if;
    -- A new row. Another transaction may be inserting it, and then holds it. A separate block, because a lock taken in a
    -- block belongs to a subtransaction, whose id does not lead to the session (sluice._wait_for_lock).
    begin
        perform set_config('lock_timeout', '10ms', true);
        insert into sluice.lock (class, id) values (i_class, i_id) on conflict on constraint lock_pkey do nothing;
        v_is_mine := found;
        perform set_config('lock_timeout', v_lock_timeout_before, true);
        return v_is_mine;
    exception
        when lock_not_available then
            return false; -- with the setting from before the block
    end;
end;
$$;

comment on function sluice._try_lock(integer, integer) is
    'Lock a row of sluice.lock until the end of the transaction; false if another transaction has locked it.';
revoke execute on function sluice._try_lock(integer, integer) from public;
grant execute on function sluice._try_lock(integer, integer) to pgq_admin, sluice_admin, sluice_reader;
