/*
 * One step; the next one starts after the last dead_letter_id. Set until when repeating it until none is left: a message
 * that fails again immediately becomes a dead letter again, and the redrive would not terminate.
 *
 * Letters that another session moves are skipped: concurrent redrives share them.
 *
 * Calls: sluice._redrive_sql, sluice._registered_name, sluice._dead_letter_filter_sql. Writes: sluice.dead_letter, the target queue.
 */
create or replace function sluice.redrive_matching(
    queue_name text,
    target_queue_name text default null,
    after_dead_letter_id bigint default null,
    qty integer default 1000,
    conditional jsonb default '{}',
    conditional_headers jsonb default '{}',
    since timestamptz default null,
    until timestamptz default null,
    reason text default null,
    error_type text default null
)
returns table (dead_letter_id bigint, msg_id bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_moved bigint;
begin
    return query execute sluice._redrive_sql(
        pgmq.format_table_name(sluice._registered_name(coalesce(target_queue_name, queue_name)), 'q'),
        format(
            '($8 is null or m.dead_letter_id > $8) and %s
             order by m.dead_letter_id
             limit $9
             for update skip locked',
            sluice._dead_letter_filter_sql()
        )
    )
    using conditional, conditional_headers, since, until, queue_name, reason, error_type, after_dead_letter_id, qty;
    get diagnostics v_moved = row_count;
    if v_moved > 0 then
        perform sluice._note_action(
            'redrive_matching'::text, queue_name,
            jsonb_build_object(
                'target_queue_name', target_queue_name,
                'conditional', nullif(conditional, '{}'),
                'conditional_headers', nullif(conditional_headers, '{}'),
                'since', since,
                'until', until,
                'reason', reason,
                'error_type', error_type
            ),
            v_moved, null::text
        );
    end if;
end;
$$;

comment on function sluice.redrive_matching(text, text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz, text, text) is
    'Move the next dead letters that a filter matches, at most qty, lowest dead_letter_id first, back into their queue or another; returns the new msg_id of each.';
revoke execute on function sluice.redrive_matching(text, text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz, text, text) from public;
grant execute on function sluice.redrive_matching(text, text, bigint, integer, jsonb, jsonb, timestamptz, timestamptz, text, text) to sluice_admin;
