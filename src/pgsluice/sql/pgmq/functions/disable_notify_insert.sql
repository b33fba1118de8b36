create or replace function pgmq.disable_notify_insert(queue_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_sequence text := pgmq._notify_sequence(queue_name);
begin
    perform pgmq.acquire_queue_lock(queue_name);
    perform pgmq._require_own_table(pgmq.format_table_name(queue_name, 'q'));
    execute format(
        'drop trigger if exists trigger_notify_queue_insert_listeners on pgmq.%I',
        pgmq.format_table_name(queue_name, 'q')
    );
    if to_regclass(v_sequence) is not null then
        execute format('drop sequence %s', v_sequence);
    end if;
    delete from pgmq.notify_insert_throttle as t where t.queue_name = disable_notify_insert.queue_name;
end;
$$;

comment on function pgmq.disable_notify_insert(text) is
    'Stop notifying listeners of new messages; raises a notice if notifications were not enabled.';
revoke execute on function pgmq.disable_notify_insert(text) from public;
grant execute on function pgmq.disable_notify_insert(text) to sluice_admin;
