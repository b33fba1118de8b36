/*
 * One step; the next one starts after the last dead_event_id. Set until when repeating it until none is left: an event that
 * fails again immediately is dead-lettered again, and the redrive would not terminate.
 *
 * Events that another session moves are skipped: concurrent redrives share them.
 *
 * Calls: sluice._redrive_events_sql, sluice._dead_event_filter_sql. Writes: sluice.dead_event, the log or the target queue.
 */
create or replace function sluice.redrive_events_matching(
    queue_name text,
    group_name text,
    target_queue_name text default null,
    after_dead_event_id bigint default null,
    qty integer default 1000,
    ev_type text default null,
    reason text default null,
    ev_ids bigint[] default null,
    since timestamptz default null,
    until timestamptz default null
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
    return query execute sluice._redrive_events_sql(
        target_queue_name,
        format(
            '($8 is null or m.dead_event_id > $8) and %s
             order by m.dead_event_id
             limit $9
             for update skip locked',
            sluice._dead_event_filter_sql()
        )
    )
    using queue_name, group_name, ev_type, reason, ev_ids, since, until, after_dead_event_id, qty, v_owner, v_queue_name;
    get diagnostics v_moved = row_count;
    if v_moved > 0 then
        perform sluice._note_action(
            'redrive_events_matching'::text, queue_name,
            jsonb_build_object(
                'group_name', group_name,
                'target_queue_name', target_queue_name,
                'ev_type', ev_type,
                'reason', reason,
                'ev_ids', sluice._some_ids(ev_ids),
                'since', since,
                'until', until
            ),
            v_moved, null::text
        );
    end if;
end;
$$;

comment on function sluice.redrive_events_matching(text, text, text, bigint, integer, text, text, bigint[], timestamptz, timestamptz) is
    'Move the next dead events that a filter matches, at most qty, lowest dead_event_id first, back to their share group or into a queue; returns the new ev_id or msg_id of each.';
revoke execute on function sluice.redrive_events_matching(text, text, text, bigint, integer, text, text, bigint[], timestamptz, timestamptz) from public;
grant execute on function sluice.redrive_events_matching(text, text, text, bigint, integer, text, text, bigint[], timestamptz, timestamptz) to pgq_admin, sluice_admin;
