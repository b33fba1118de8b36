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
    -- Maintenance would delete the attempts later. It has to where the caller has rights on PGMQ's own objects only, as roles
    -- from before an adoption may.
    if has_schema_privilege('sluice', 'usage') then
        if has_table_privilege('sluice.attempt', 'delete') then
            delete from sluice.attempt as noted where noted.queue_name = lower(purge_queue.queue_name);
        end if;
        if has_function_privilege('sluice.note_action(text, text, jsonb, bigint, text)', 'execute') then
            perform sluice.note_action('purge_queue'::text, queue_name, null::jsonb, v_purged, null::text);
        end if;
    end if;
    return v_purged;
end;
$$;

comment on function pgmq.purge_queue(text) is
    'Delete all messages of a queue, visible or not, and keep its archive; returns their number.';
revoke execute on function pgmq.purge_queue(text) from public;
grant execute on function pgmq.purge_queue(text) to sluice_admin;
