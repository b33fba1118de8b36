/*
 * A search with a bounded cost, in the order of an index: it looks at no more than scan rows, and returns those that match. The
 * last row has no message: searched is the number of rows it has looked at, unsearched that of payloads too large to search, and
 * searched_msg_id and searched_vt are where it ended: pass them as after_msg_id and after_vt to continue. They are null if the
 * search reached the end.
 *
 * It is one statement with one snapshot: a message that is moved meanwhile is found once, and no row is passed over between
 * what was searched and where it ended.
 *
 * Messages are read by msg_id, from all places in one order. Messages in flight, retrying and delayed ones are read by vt, in the
 * index of deferred messages: among millions of visible ones they would not be found. Dead letters of a queue that was
 * dropped and created again repeat ids: a search does not end between two.
 *
 * Times are those of the send, everywhere: ids of a queue and its archive are sorted by them, so the search starts at the right id.
 * Messages of a transaction that took longer than a minute may be missed. All dead letters are looked at: those of a
 * queue that was dropped have other times.
 *
 * Payloads that are stored in more than message_bytes_max bytes are left out. Those stored in more than searched_bytes_max
 * are not read: such a message is found by its msg_id, key and headers only.
 *
 * Without contents it reads only columns that sluice_monitor may read, and a text matches the msg_id only. Infinite times, which
 * clients cannot read, are null.
 *
 * Calls: sluice._stored_places, sluice._filter_sql, sluice._msg_id_at.
 */
create or replace function sluice.search_messages(
    queue_name text,
    relation text default 'queue',
    of_state text default null,
    after_msg_id bigint default null,
    after_vt timestamptz default null,
    newest_first boolean default true,
    qty integer default 100,
    scan integer default 10000,
    key text default null,
    conditional jsonb default '{}',
    since timestamptz default null,
    until timestamptz default null,
    with_contents boolean default true,
    message_bytes_max integer default null,
    matching text default null,
    searched_bytes_max integer default null
)
returns table (
    msg_id bigint, read_ct integer, enqueued_at timestamptz, last_read_at timestamptz, vt timestamptz, archived_at timestamptz,
    state text, message jsonb, headers jsonb, is_left_out boolean, searched_msg_id bigint, searched_vt timestamptz,
    searched bigint, unsearched bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
-- Without statistics, as for a queue just filled, the planner would sort the whole table.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_by_vt constant boolean := coalesce(of_state in ('in flight', 'retrying', 'delayed'), false);
    v_now constant timestamptz := clock_timestamp();
    v_slack constant interval := interval '1 minute';
    v_order constant text := format(
        case when v_by_vt then 'order by m.vt %1$s, m.msg_id %1$s' else 'order by m.msg_id %1$s' end,
        case when newest_first then 'desc' else 'asc' end
    );
    v_rest constant text := format(
        case when v_by_vt
            then 'and m.vt > m.enqueued_at and m.vt > $11 and ($6 is null or (m.vt, m.msg_id) %1$s ($7, $6))'
            else 'and ($6 is null or m.msg_id %1$s $6)'
        end || ' %2$s fetch first ($8) rows with ties',
        case when newest_first then '<' else '>' end, v_order
    );
    v_place record;
    v_rows text;
    v_found record;
    v_count integer := 0;
    v_searched bigint := 0;
    v_unsearched bigint := 0;
    -- Likewise, up to the last row returned.
    v_passed bigint := 0;
    v_passed_unsearched bigint := 0;
    v_ended_msg_id bigint;
    v_ended_vt timestamptz;
begin
    if of_state not in ('visible', 'in flight', 'retrying', 'delayed') or relation <> 'queue' and of_state is not null then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('%L is not a state of messages in relation %L', of_state, relation),
            hint = 'use visible, in flight, retrying or delayed in a queue, and null elsewhere';
    end if;
    for v_place in
        select p.place, p.columns, p.source, pgmq.format_table_name(queue_name, t.kind) as stored
        from sluice._stored_places(queue_name, relation, with_contents) as p
        left join (values ('queue', 'q'), ('archive', 'a')) as t (place, kind) on t.place = p.place
    loop
        v_rows := concat_ws(
            ' union all ', v_rows,
            format(
                '(select %s from %s and (%L::bigint is null or m.msg_id >= %3$L::bigint) and (%L::bigint is null or m.msg_id < %4$L::bigint) %s)',
                v_place.columns, v_place.source,
                case when not v_by_vt then sluice._msg_id_at(v_place.stored, since - v_slack) end,
                case when not v_by_vt then sluice._msg_id_at(v_place.stored, until + v_slack) end,
                v_rest
            )
        );
    end loop;

    for v_found in
        execute format(
            'select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.archived_at, m.state, m.headers,
                coalesce(pg_column_size(m.stored) > $13, false) as is_left_out,
                case when $13 is null or pg_column_size(m.stored) <= $13 then m.stored end as message,
                m.is_match, m.is_unsearched, m.is_last, m.place
             from (
                select m.*, coalesce(pg_column_size(m.stored) > $12, false) as is_unsearched,
                    coalesce(
                        ($9 is null or m.state = $9) and ($10 is null or m.headers ->> ''x-pgmq-group'' = $10) and %1$s, false
                    ) as is_match
                from (
                    select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.archived_at, m.state, m.headers, m.message as stored,
                        case when $12 is null or pg_column_size(m.message) <= $12 then m.message end as message,
                        row_number() over w as place, lead(true) over w is null as is_last
                    from (select m.* from (%2$s) as m %3$s fetch first ($8) rows with ties) as m
                    window w as (%3$s)
                ) as m
             ) as m
             where m.is_match or m.is_unsearched or m.is_last
             %3$s',
            sluice._filter_sql('enqueued_at'::text, '$5'::text, false), v_rows, v_order
        )
        using conditional, null::jsonb, since, until, matching, after_msg_id, coalesce(after_vt, 'infinity'), scan::bigint,
            of_state, key, v_now, case when matching is not null or conditional <> '{}' then searched_bytes_max end, message_bytes_max
    loop
        if v_found.is_match then
            if v_count >= qty and v_found.msg_id <> msg_id then
                v_ended_msg_id := msg_id;
                v_ended_vt := vt;
                v_searched := v_passed;
                v_unsearched := v_passed_unsearched;
                exit;
            end if;
            v_count := v_count + 1;
            msg_id := v_found.msg_id;
            read_ct := v_found.read_ct;
            enqueued_at := v_found.enqueued_at;
            last_read_at := v_found.last_read_at;
            vt := case when isfinite(v_found.vt) then v_found.vt end;
            archived_at := case when isfinite(v_found.archived_at) then v_found.archived_at end;
            state := v_found.state;
            is_left_out := v_found.is_left_out;
            message := v_found.message;
            headers := v_found.headers;
            return next;
            v_passed := v_found.place;
            v_passed_unsearched := v_unsearched;
        elsif v_found.is_unsearched then
            v_unsearched := v_unsearched + 1;
        end if;
        v_searched := v_found.place;
        if v_found.is_last and v_found.place >= scan then
            v_ended_msg_id := v_found.msg_id;
            v_ended_vt := case when isfinite(v_found.vt) then v_found.vt end;
        end if;
    end loop;

    msg_id := null;
    read_ct := null;
    enqueued_at := null;
    last_read_at := null;
    vt := null;
    archived_at := null;
    state := null;
    message := null;
    headers := null;
    is_left_out := null;
    searched_msg_id := v_ended_msg_id;
    searched_vt := v_ended_vt;
    searched := v_searched;
    unsearched := v_unsearched;
    return next;
end;
$$;

comment on function sluice.search_messages(text, text, text, bigint, timestamptz, boolean, integer, integer, text, jsonb, timestamptz, timestamptz, boolean, integer, text, integer) is
    'Return messages of a queue (relation queue), its archive (archive), its dead letters (dead letters) or all of them (all) that match a filter, among the next scan messages; the last row has no message, but the number of messages searched, that of payloads too large to search, and the place where the search ended, null at the end. Filters: state, key, contained JSON, time of the send; matching: the msg_id or key, or a text that occurs in the payload or headers in any case; a JSON object or array is contained in them.';
revoke execute on function sluice.search_messages(text, text, text, bigint, timestamptz, boolean, integer, integer, text, jsonb, timestamptz, timestamptz, boolean, integer, text, integer) from public;
grant execute on function sluice.search_messages(text, text, text, bigint, timestamptz, boolean, integer, integer, text, jsonb, timestamptz, timestamptz, boolean, integer, text, integer) to sluice_admin, sluice_monitor, sluice_reader;
