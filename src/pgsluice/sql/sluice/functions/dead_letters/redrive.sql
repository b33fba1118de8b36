/*
 * One step; the next one starts after the last dead_letter_id. Set until when repeating it until none is left: a message
 * that fails again immediately becomes a dead letter again, and the redrive would not terminate.
 *
 * Dead letters chosen by id are locked in a fixed order, so that concurrent redrives of the same ones do not deadlock; the
 * second finds them gone. Without ids, dead letters that another session moves are skipped: concurrent redrives share them.
 *
 * Calls: sluice._redrive_sql, sluice._registered_name, sluice._owner_of. Writes: sluice.dead_letter, the target queue or the
 * log; all with its caller's rights.
 */
create or replace function sluice.redrive(
    queue_name text,
    consumer_name text default null,
    filter jsonb default '{}',
    target_queue_name text default null,
    after_dead_letter_id bigint default null,
    qty integer default 1000
)
returns table (dead_letter_id bigint, msg_id bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter constant sluice.dead_letter_filter := sluice._dead_letter_filter(filter);
    v_queue_table text;
    v_owner integer;
    v_is_group boolean;
    v_moved bigint;
begin
    if consumer_name is null or target_queue_name is not null then
        v_queue_table := pgmq.format_table_name(sluice._registered_name(coalesce(target_queue_name, queue_name)), 'q');
    else
        select o.owner, o.is_group into v_owner, v_is_group from sluice._owner_of(queue_name, consumer_name) as o;
    end if;
    return query execute sluice._redrive_sql(
        consumer_name,
        v_queue_table,
        format(
            '($8 is null or m.dead_letter_id > $8) and %s
             order by m.dead_letter_id
             limit $9
             for update %s',
            sluice._dead_letter_filter_sql(consumer_name),
            case when v_filter.dead_letter_ids is null then 'skip locked' end
        )
    )
    using v_filter.message, v_filter.headers, v_filter.since, v_filter.until, queue_name, consumer_name, v_filter,
        after_dead_letter_id, qty, v_owner, v_is_group;
    get diagnostics v_moved = row_count;
    if v_moved > 0 then
        perform sluice.note_action(
            'redrive'::text, queue_name,
            jsonb_build_object(
                'consumer_name', consumer_name,
                'target_queue_name', target_queue_name,
                'filter', nullif(
                    case when v_filter.dead_letter_ids is null then filter
                        else filter || jsonb_build_object('dead_letter_ids', to_jsonb(v_filter.dead_letter_ids[:100]))
                    end,
                    '{}'
                )
            ),
            v_moved, null::text
        );
    end if;
end;
$$;

comment on function sluice.redrive(text, text, jsonb, text, bigint, integer) is
    'Move the next dead letters that match a filter as that of sluice.list_dead_letters, at most qty, lowest dead_letter_id first: those of a queue back into it, those of a share group or consumer back to it, as new events that it alone gets, or all into another queue, as new messages with x-pgmq-replayed-from in their headers; returns the new msg_id or ev_id of each.';
revoke execute on function sluice.redrive(text, text, jsonb, text, bigint, integer) from public;
grant execute on function sluice.redrive(text, text, jsonb, text, bigint, integer) to pgq_admin, sluice_admin;
