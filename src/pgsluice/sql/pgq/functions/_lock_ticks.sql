-- Locks the log's empty tick table in the weakest mode that conflicts with itself: it does not block readers, writers
-- or dumps. It needs rights on the table, which an advisory lock does not; unlike a row lock it takes no transaction
-- id, so a call that finds no tick due writes nothing. It is released after the commit is visible: the next holder's
-- snapshot includes this tick.
--
-- Take it in a statement of its own, before the one whose snapshot becomes the tick: see pgq.ticker.
create or replace function pgq._lock_ticks(i_queue_id integer, i_waits boolean default false)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_statement constant text := format('lock table only pgq.%I in share update exclusive mode', format('tick_%s', i_queue_id));
begin
    if i_waits then
        execute v_statement;
        return true;
    end if;
    begin
        execute v_statement || ' nowait';
        return true;
    exception
        when lock_not_available then
            return false;
    end;
end;
$$;

comment on function pgq._lock_ticks(integer, boolean) is
    'Become the only session that ticks a log, to the end of the transaction; false if another one is and i_waits is false.';
revoke execute on function pgq._lock_ticks(integer, boolean) from public;
grant execute on function pgq._lock_ticks(integer, boolean) to pgq_admin, sluice_admin;
