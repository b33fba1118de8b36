/*
 * Appends with a static INSERT, whose plan the session caches: planning it at each call took half of the time of an event.
 * There is one for each of the first three segments of the first 16 logs. Their tables need not exist, because PL/pgSQL
 * parses a statement when it is first executed. So nothing changes here when logs and segments are created or dropped. For
 * the others the INSERT is dynamic, and names every value: defaults would be read from the catalog and parsed each time.
 *
 * Each expression costs, as PL/pgSQL prepares it again in each transaction: so there are few. More INSERTs would cost each
 * session more, because its first call compiles them all, these in less than half a millisecond.
 *
 * Rejected: a function per log, called by a dynamic statement, because planning that costs nearly as much; and one that is
 * generated for the logs of the database, because sessions that create logs concurrently would replace it concurrently.
 *
 * Without a pinned search_path, which would cost once more: only a pinned function calls it. It runs with that one's rights.
 * The caller has read the row of the log, and passes the id of the transaction, which it must have before the event gets
 * its number: the numbers that a tick has counted then belong to transactions that its snapshot knows.
 */
do $do$
declare
    v_logs constant integer := 16;
    v_segments constant integer := 3; -- those of a new log
    v_together constant integer := 4;
    v_insert constant text := '
            insert into pgq.event_%1$s_%2$s (
                ev_id, ev_time, ev_txid, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
            )
            values (
                nextval(''pgq.event_%1$s_id_seq''::regclass), now(), i_txid,
                i_type, i_data, i_extra1, i_extra2, i_extra3, i_extra4
            )
            returning ev_id into v_event_id;
            return v_event_id;';
    v_branches text := '';
begin
    for v_log in 1 .. v_logs
    loop
        if v_log % v_together = 1 then
            v_branches := v_branches || format(
                '
    %s i_queue_id <= %s then', case when v_log = 1 then 'if' else 'end if; elsif' end, v_log + v_together - 1
            );
        end if;
        v_branches := v_branches || format(
            '
        %s i_queue_id = %s then', case when v_log % v_together = 1 then 'if' else 'elsif' end, v_log
        );
        for v_segment in 0 .. v_segments - 1
        loop
            v_branches := v_branches || format(
                '
            %s i_segment = %s then', case when v_segment = 0 then 'if' else 'elsif' end, v_segment
            ) || format(v_insert, v_log, v_segment);
        end loop;
        v_branches := v_branches || '
            end if;';
    end loop;
    execute format(
        $statement$
create or replace function pgq._append_event(
    i_queue_id integer, i_segment integer, i_txid xid8,
    i_type text, i_data text, i_extra1 text, i_extra2 text, i_extra3 text, i_extra4 text
)
returns bigint
language plpgsql
as %L
        $statement$,
        '
declare
    v_event_id bigint;
begin' || v_branches || '
        end if;
    end if;
    execute format(
        ''insert into pgq.event_%1$s_%2$s (
            ev_id, ev_time, ev_txid, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
         )
         values (nextval(''''pgq.event_%1$s_id_seq''''::regclass), $1, $2, $3, $4, $5, $6, $7, $8)
         returning ev_id'',
        i_queue_id, i_segment
    )
    into v_event_id
    using now(), i_txid, i_type, i_data, i_extra1, i_extra2, i_extra3, i_extra4;
    return v_event_id;
end;
'
    );
end;
$do$;

comment on function pgq._append_event(integer, integer, xid8, text, text, text, text, text, text) is
    'Append one event to a segment of a log that accepts it; returns its ev_id.';
revoke execute on function pgq._append_event(integer, integer, xid8, text, text, text, text, text, text) from public;
grant execute on function pgq._append_event(integer, integer, xid8, text, text, text, text, text, text) to pgq_admin, sluice_admin;
