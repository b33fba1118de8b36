-- The caller may have rights on PGMQ's own objects only, as roles from before an adoption may; see pgmq._forget_attempts.
create or replace function pgmq._note_purge(queue_name text, message_count bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_schema_privilege('sluice', 'usage') then
        if has_function_privilege('sluice.note_action(text, text, jsonb, bigint, text)', 'execute') then
            perform sluice.note_action('purge_queue'::text, queue_name, null::jsonb, message_count, null::text);
        end if;
    end if;
end;
$$;

comment on function pgmq._note_purge(text, bigint) is
    'Record the purge of a queue, if the caller may record actions.';
revoke execute on function pgmq._note_purge(text, bigint) from public;
grant execute on function pgmq._note_purge(text, bigint) to sluice_admin;
