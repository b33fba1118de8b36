create or replace function pgmq.purge_queue(queue_name text)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_purged bigint;
begin
    -- Takes the lock of TRUNCATE before counting, so that no message can be sent in between and be deleted uncounted.
    execute format('lock table pgmq.%I in access exclusive mode', v_queue);
    execute format('select count(*) from pgmq.%I', v_queue) into v_purged;
    execute format('truncate table pgmq.%I', v_queue);
    perform pgmq._forget_attempts(queue_name);
    perform pgmq._note_purge(queue_name, v_purged);
    return v_purged;
end;
$$;

comment on function pgmq.purge_queue(text) is
    'Delete all messages of a queue, visible or not, and keep its archive; returns their number.';
revoke execute on function pgmq.purge_queue(text) from public;
grant execute on function pgmq.purge_queue(text) to sluice_admin;
