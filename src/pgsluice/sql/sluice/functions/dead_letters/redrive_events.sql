-- Calls: sluice._redrive_events_sql. Writes: sluice.dead_event, the log or the target queue; all with its caller's rights.
create or replace function sluice.redrive_events(
    queue_name text, group_name text, dead_event_ids bigint[], target_queue_name text default null
)
returns table (dead_event_id bigint, ev_id bigint, msg_id bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_owner integer;
    v_queue_name text;
    v_moved bigint;
begin
    if target_queue_name is null then
        v_owner := sluice._group_owner(queue_name, group_name);
    else
        v_queue_name := sluice._registered_name(target_queue_name);
    end if;
    -- Lock in a fixed order, so that concurrent redrives of the same events do not deadlock; the second finds them gone.
    return query execute sluice._redrive_events_sql(
        target_queue_name,
        'm.queue_name = $1 and m.group_name = $2 and m.dead_event_id = any ($5) order by m.dead_event_id for update'
    )
    using queue_name, group_name, null, null, dead_event_ids, null, null, null, null, v_owner, v_queue_name;
    get diagnostics v_moved = row_count;
    if v_moved > 0 then
        perform sluice._note_action(
            'redrive_events'::text, queue_name,
            jsonb_build_object(
                'group_name', group_name,
                'target_queue_name', target_queue_name,
                'dead_event_ids', sluice._some_ids(dead_event_ids)
            ),
            v_moved, null::text
        );
    end if;
end;
$$;

comment on function sluice.redrive_events(text, text, bigint[], text) is
    'Move dead events of a share group back to it, as new events that it alone gets, or into a queue, as messages with x-pgmq-replayed-from in their headers; returns the new ev_id or msg_id of each event that existed.';
revoke execute on function sluice.redrive_events(text, text, bigint[], text) from public;
grant execute on function sluice.redrive_events(text, text, bigint[], text) to pgq_admin, sluice_admin;
