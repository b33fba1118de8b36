/*
 * A search with a bounded cost, in the order of an index: it reads at most scan rows, and returns those that match. The last
 * row has no message, only the place where the search ended: pass searched_msg_id and searched_vt as after_msg_id and after_vt
 * to continue. It is missing if the search reached the end.
 *
 * Queue and archive are read by msg_id. Messages in flight, retrying and delayed ones are read by vt, in the index of deferred messages:
 * among millions of visible ones they would not be found.
 *
 * Times are those of the send, also in the archive: ids are sorted by them, so the search starts at the right id. Messages of
 * a transaction that took longer than a minute may be missed.
 *
 * Payloads that are stored in more than message_bytes_max bytes are left out, and not read unless a filter concerns them.
 *
 * Without contents it reads only columns that sluice_monitor may read. Infinite times, which clients cannot read, are null.
 *
 * Calls: sluice._relation_table, sluice._msg_id_at.
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
    message_bytes_max integer default null
)
returns table (
    msg_id bigint, read_ct integer, enqueued_at timestamptz, last_read_at timestamptz, vt timestamptz, archived_at timestamptz,
    state text, message jsonb, headers jsonb, is_left_out boolean, searched_msg_id bigint, searched_vt timestamptz
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
    v_table constant text := sluice._relation_table(queue_name, relation);
    v_by_vt constant boolean := coalesce(of_state in ('in flight', 'retrying', 'delayed'), false);
    v_now constant timestamptz := clock_timestamp();
    v_slack constant interval := interval '1 minute';
    v_order text;
    v_scanned text;
    v_contents text;
    v_state text := 'case when m.vt <= $1 then ''visible'' when m.last_read_at is not null then ''in flight''
        when m.read_ct > 0 then ''retrying'' else ''delayed'' end';
    v_first bigint;
    v_end bigint;
    v_found record;
    v_count integer := 0;
begin
    if of_state not in ('visible', 'in flight', 'retrying', 'delayed') or relation = 'archive' and of_state is not null then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('%L is not a state of messages in a %s', of_state, relation),
            hint = 'use visible, in flight, retrying or delayed in a queue, and null in an archive';
    end if;
    if not v_by_vt then
        v_first := sluice._msg_id_at(v_table, since - v_slack);
        v_end := sluice._msg_id_at(v_table, until + v_slack);
    end if;
    v_order := format(
        case when v_by_vt then 'm.vt %1$s, m.msg_id %1$s' else 'm.msg_id %1$s' end,
        case when newest_first then 'desc' else 'asc' end
    );
    v_scanned := format(
        case when v_by_vt
            then 'pgmq.%1$I as m where m.vt > m.enqueued_at and m.vt > $1 and ($2 is null or (m.vt, m.msg_id) %2$s ($3, $2)) order by %3$s'
            else 'pgmq.%1$I as m where ($2 is null or m.msg_id %2$s $2) and ($4 is null or m.msg_id >= $4) and ($5 is null or m.msg_id < $5) order by %3$s'
        end,
        v_table, case when newest_first then '<' else '>' end, v_order
    );
    v_contents := case
        when not with_contents then 'null::timestamptz as archived_at, null::jsonb as message, null::jsonb as headers'
        when relation = 'archive' then 'm.archived_at, m.message, m.headers'
        else 'null::timestamptz as archived_at, m.message, m.headers'
    end;
    if relation = 'archive' then
        v_state := '''archived''';
    end if;

    for v_found in
        execute format(
            'select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.archived_at, m.headers, %1$s as state,
                case when $13 is null or pg_column_size(m.message) <= $13 then m.message end as message,
                coalesce(pg_column_size(m.message) > $13, false) as is_left_out
             from (select m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, %2$s from %3$s limit $6) as m
             where ($7 is null or %1$s = $7)
               and ($8 is null or m.headers ->> ''x-pgmq-group'' = $8)
               and ($9 is null or $9 = ''{}'' or m.message @> $9)
               and ($10 is null or m.enqueued_at >= $10)
               and ($11 is null or m.enqueued_at < $11)
             order by %4$s
             limit $12 + 1',
            v_state, v_contents, v_scanned, v_order
        )
        using v_now, after_msg_id, coalesce(after_vt, 'infinity'), v_first, v_end, scan, of_state, key, conditional, since, until, qty, message_bytes_max
    loop
        v_count := v_count + 1;
        exit when v_count > qty;
        msg_id := v_found.msg_id;
        read_ct := v_found.read_ct;
        enqueued_at := v_found.enqueued_at;
        last_read_at := v_found.last_read_at;
        vt := case when isfinite(v_found.vt) then v_found.vt end;
        archived_at := case when isfinite(v_found.archived_at) then v_found.archived_at end;
        state := v_found.state;
        message := v_found.message;
        headers := v_found.headers;
        is_left_out := v_found.is_left_out;
        return next;
    end loop;

    if v_count > qty then
        searched_msg_id := msg_id;
        searched_vt := vt;
    else
        execute format('select m.msg_id, case when isfinite(m.vt) then m.vt end from %s offset $6 - 1 limit 1', v_scanned)
        using v_now, after_msg_id, coalesce(after_vt, 'infinity'), v_first, v_end, scan
        into searched_msg_id, searched_vt;
    end if;
    if searched_msg_id is not null then
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
        return next;
    end if;
end;
$$;

comment on function sluice.search_messages(text, text, text, bigint, timestamptz, boolean, integer, integer, text, jsonb, timestamptz, timestamptz, boolean, integer) is
    'Return messages of a queue (relation queue) or its archive (archive) that match a filter, among the next scan messages; the last row says where the search ended, and is missing at the end. Filters: state, key, contained JSON, time of the send.';
revoke execute on function sluice.search_messages(text, text, text, bigint, timestamptz, boolean, integer, integer, text, jsonb, timestamptz, timestamptz, boolean, integer) from public;
grant execute on function sluice.search_messages(text, text, text, bigint, timestamptz, boolean, integer, integer, text, jsonb, timestamptz, timestamptz, boolean, integer) to sluice_admin, sluice_monitor, sluice_reader;
