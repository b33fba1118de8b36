-- The lock of "create trigger" keeps writers out until the commit; a queue that has the triggers is not locked.
--
-- Calls: pgmq.acquire_queue_lock, pgmq._require_own_table.
create or replace function sluice.enable_successors(queue_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table constant text := pgmq.format_table_name(queue_name, 'q');
begin
    perform sluice._registered_name(queue_name);
    perform pgmq.acquire_queue_lock(queue_name);
    perform pgmq._require_own_table(v_table);
    if sluice._has_successors(v_table) then
        return;
    end if;
    execute format('drop trigger if exists finish_predecessors on pgmq.%I', v_table);
    execute format('drop trigger if exists finish_all_predecessors on pgmq.%I', v_table);
    execute format(
        'create trigger finish_predecessors after delete on pgmq.%I referencing old table as gone
         for each statement execute function sluice._finish_predecessors()',
        v_table
    );
    execute format(
        'create trigger finish_all_predecessors after truncate on pgmq.%I
         for each statement execute function sluice._finish_predecessors()',
        v_table
    );
end;
$$;

comment on function sluice.enable_successors(text) is
    'Allow messages that run after messages of this queue, see sluice.send_after: create the triggers that notice when its messages are done. Writers wait for its commit.';
revoke execute on function sluice.enable_successors(text) from public;
grant execute on function sluice.enable_successors(text) to sluice_admin;
