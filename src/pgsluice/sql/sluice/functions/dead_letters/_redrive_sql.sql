-- One statement, so that a message or event is always either a dead letter or in a queue or log.
--
-- For its share group or consumer an event becomes an event of the log that it owns, like a retried event: others do not
-- see it. It is a new event there, with a number of its own. Its ev_retry is the number of redrives in a share group, and
-- null for a consumer, which counts its attempts by it.
create or replace function sluice._redrive_sql(consumer_name text, queue_table text, chosen text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        $redrive$with chosen as materialized (
            select m.dead_letter_id from sluice.%1$I as m where %2$s
        ),
        moved as (
            delete from sluice.%1$I as d
            where d.dead_letter_id = any (array(select chosen.dead_letter_id from chosen))
            returning d.*
        )$redrive$,
        sluice._dead_letter_table(consumer_name), chosen
    ) || case
        when queue_table is null then
            $log$
        select m.dead_letter_id, pgq.insert_event_raw(
            m.queue_name, null::bigint, m.enqueued_at, $10, case when $11 then m.redriven + 1 end,
            m.ev_type, m.ev_data, m.ev_extra1, m.ev_extra2, m.ev_extra3, m.ev_extra4
        )
        from (select moved.* from moved order by moved.dead_letter_id) as m$log$
        else format(
            $queue$,
        sent as (
            insert into pgmq.%I (vt, message, headers)
            select now(), %s, sluice._replayed_headers(
                moved.headers,
                jsonb_build_object(%s, 'dead_letter_id', moved.dead_letter_id, 'dead_at', moved.dead_at, 'reason', moved.reason)
            )
            from moved
            order by moved.dead_letter_id
            returning msg_id, (headers #>> '{x-pgmq-replayed-from,dead_letter_id}')::bigint as dead_letter_id
        )
        select sent.dead_letter_id, sent.msg_id from sent order by sent.dead_letter_id$queue$,
            queue_table,
            case when consumer_name is null then 'moved.message' else
                $event$jsonb_build_object(
                'ev_id', moved.msg_id, 'ev_time', moved.enqueued_at, 'ev_txid', moved.ev_txid::text::bigint,
                'ev_type', moved.ev_type, 'ev_data', moved.ev_data, 'ev_extra1', moved.ev_extra1, 'ev_extra2', moved.ev_extra2,
                'ev_extra3', moved.ev_extra3, 'ev_extra4', moved.ev_extra4
            )$event$
            end,
            case when consumer_name is null
                then $origin$'queue', moved.queue_name, 'msg_id', moved.msg_id$origin$
                else $origin$'log', moved.queue_name, 'consumer', moved.consumer_name, 'ev_id', moved.msg_id, 'redriven', moved.redriven + 1$origin$
            end
        )
    end;
$$;

comment on function sluice._redrive_sql(text, text, text) is
    'Return the statement that moves the chosen dead letters (m) into a queue, or back to their share group or consumer, whose id is $10 and which is a share group if $11.';
revoke execute on function sluice._redrive_sql(text, text, text) from public;
grant execute on function sluice._redrive_sql(text, text, text) to pgq_admin, sluice_admin;
