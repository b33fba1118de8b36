-- One statement, so that an event is always either a dead event or in the log or queue.
--
-- For its group it becomes an event of the log that the group owns, like a retried event: others do not see it. It is a
-- new event there, with a number of its own. Its ev_retry is the number of redrives.
create or replace function sluice._redrive_events_sql(target_queue_name text, chosen text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        $redrive$with chosen as materialized (
            select m.dead_event_id from sluice.dead_event as m where %s
        ),
        moved as (
            delete from sluice.dead_event as d
            where d.dead_event_id = any (array(select chosen.dead_event_id from chosen))
            returning d.*
        )
        select m.dead_event_id, %s
        from (select moved.* from moved order by moved.dead_event_id) as m$redrive$,
        chosen,
        case when target_queue_name is null
            then $group$pgq.insert_event_raw(
                m.queue_name, null, m.ev_time, $10, m.redriven + 1,
                m.ev_type, m.ev_data, m.ev_extra1, m.ev_extra2, m.ev_extra3, m.ev_extra4
            ), null::bigint$group$
            else $queue$null::bigint, (
                select sent
                from pgmq.send(
                    $11,
                    jsonb_build_object(
                        'ev_id', m.ev_id, 'ev_time', m.ev_time, 'ev_txid', m.ev_txid::text::bigint,
                        'ev_type', m.ev_type, 'ev_data', m.ev_data, 'ev_extra1', m.ev_extra1, 'ev_extra2', m.ev_extra2,
                        'ev_extra3', m.ev_extra3, 'ev_extra4', m.ev_extra4
                    ),
                    sluice._replayed_headers(
                        null,
                        jsonb_build_object(
                            'log', m.queue_name, 'group', m.group_name, 'ev_id', m.ev_id, 'dead_event_id', m.dead_event_id,
                            'dead_at', m.dead_at, 'reason', m.reason, 'redriven', m.redriven + 1
                        )
                    )
                ) as sent
            )$queue$
        end
    );
$$;

comment on function sluice._redrive_events_sql(text, text) is
    'Return the statement that moves the chosen dead events (m) back to their share group, whose owner''s id is $10, or into the queue $11.';
revoke execute on function sluice._redrive_events_sql(text, text) from public;
grant execute on function sluice._redrive_events_sql(text, text) to pgq_admin, sluice_admin;
