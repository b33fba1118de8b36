-- Calls: sluice._redrive_sql, sluice._registered_name. Writes: sluice.dead_letter, the target queue.
create or replace function sluice.redrive(
    queue_name text, dead_letter_ids bigint[], target_queue_name text default null
)
returns table (dead_letter_id bigint, msg_id bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_moved bigint;
begin
    -- Lock in a fixed order, so that concurrent redrives of the same letters do not deadlock; the second finds them gone.
    return query execute sluice._redrive_sql(
        pgmq.format_table_name(sluice._registered_name(coalesce(target_queue_name, queue_name)), 'q'),
        'lower(m.queue_name) = lower($5) and m.dead_letter_id = any ($1) order by m.dead_letter_id for update'
    )
    using dead_letter_ids, null, null, null, queue_name;
    get diagnostics v_moved = row_count;
    if v_moved > 0 then
        perform sluice._note_action(
            'redrive'::text, queue_name,
            jsonb_build_object(
                'target_queue_name', target_queue_name,
                'dead_letter_ids', sluice._some_ids(dead_letter_ids)
            ),
            v_moved, null::text
        );
    end if;
end;
$$;

comment on function sluice.redrive(text, bigint[], text) is
    'Move dead letters of a queue back into it, or into another, as new messages with x-pgmq-replayed-from in their headers; returns the new msg_id of each letter that existed.';
revoke execute on function sluice.redrive(text, bigint[], text) from public;
grant execute on function sluice.redrive(text, bigint[], text) to sluice_admin;
