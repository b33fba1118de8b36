-- The archive keeps its rows: a message that is replayed twice is sent twice.
--
-- Calls: sluice._registered_name, sluice._replay_sql. Reads: the archive. Writes: the target queue.
create or replace function sluice.replay(queue_name text, msg_ids bigint[], target_queue_name text default null)
returns table (archived_msg_id bigint, msg_id bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name text := sluice._registered_name(queue_name);
    v_target text := sluice._registered_name(coalesce(target_queue_name, queue_name));
    v_moved bigint;
begin
    return query execute format(
        '%s select sent.archived_msg_id, sent.msg_id from sent order by sent.archived_msg_id',
        sluice._replay_sql(
            pgmq.format_table_name(v_queue_name, 'a'), pgmq.format_table_name(v_target, 'q'), 'm.msg_id = any ($1)'
        )
    )
    using msg_ids, null, null, null, v_queue_name;
    get diagnostics v_moved = row_count;
    if v_moved > 0 then
        perform sluice.note_action(
            'replay'::text, queue_name,
            jsonb_build_object(
                'target_queue_name', target_queue_name,
                'msg_ids', to_jsonb(msg_ids[:100])
            ),
            v_moved, null::text
        );
    end if;
end;
$$;

comment on function sluice.replay(text, bigint[], text) is
    'Send archived messages again, to their queue or another, as new messages with x-pgmq-replayed-from in their headers; returns the old and new msg_id of the messages found.';
revoke execute on function sluice.replay(text, bigint[], text) from public;
grant execute on function sluice.replay(text, bigint[], text) to sluice_admin;
