/*
 * Returns the next qty dead letters that match. Dropping a queue, log, share group or consumer keeps its dead letters.
 *
 * With scan, a search at a bounded cost: it reads at most scan dead letters. Then the last row has no dead letter, only the id
 * at which the search ended: pass searched_dead_letter_id as after_dead_letter_id to continue. It is missing if the search
 * reached the end.
 *
 * Without contents, payloads, headers and traces are neither read nor returned.
 *
 * Calls: sluice._dead_letter_filter_sql. Reads: sluice.dead_letter, by queue and dead_letter_id.
 */
create or replace function sluice.list_dead_letters(
    queue_name text,
    consumer_name text default null,
    filter jsonb default '{}',
    after_dead_letter_id bigint default null,
    qty integer default 100,
    newest_first boolean default false,
    scan integer default null,
    with_contents boolean default true
)
returns table (letter sluice.dead_letter, searched_dead_letter_id bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
-- Without statistics, the planner would sort all dead letters of the queue.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_filter constant sluice.dead_letter_filter := sluice._dead_letter_filter(filter);
    v_scanned constant text := format(
        case when consumer_name is null
            then 'sluice.%1$I as d where lower(d.queue_name) = lower($5) and ($8 is null or d.dead_letter_id %2$s $8)
                  order by lower(d.queue_name) %3$s, d.dead_letter_id %3$s'
            else 'sluice.%1$I as d where d.queue_name = $5 and d.consumer_name = $6 and ($8 is null or d.dead_letter_id %2$s $8)
                  order by d.queue_name %3$s, d.consumer_name %3$s, d.dead_letter_id %3$s'
        end,
        sluice._dead_letter_table(consumer_name),
        case when newest_first then '<' else '>' end,
        case when newest_first then 'desc' end
    );
    v_count integer := 0;
    v_last bigint;
begin
    for letter in
        execute format(
            'select m.* from (select d.* from %s %s) as m where %s limit $10',
            v_scanned, case when scan is not null then 'limit $9' end, sluice._dead_letter_filter_sql(consumer_name)
        )
        using v_filter.message, v_filter.headers, v_filter.since, v_filter.until, queue_name, consumer_name, v_filter,
            after_dead_letter_id, scan, qty + (scan is not null)::integer
    loop
        v_count := v_count + 1;
        exit when v_count > qty;
        v_last := letter.dead_letter_id;
        if not with_contents then
            letter.message := null;
            letter.headers := null;
            letter.trace := null;
            letter.ev_data := null;
            letter.ev_extra1 := null;
            letter.ev_extra2 := null;
            letter.ev_extra3 := null;
            letter.ev_extra4 := null;
        end if;
        return next;
    end loop;

    letter := null;
    if v_count > qty then
        searched_dead_letter_id := v_last;
    elsif scan is not null then
        execute format('select d.dead_letter_id from %s offset $9 - 1 limit 1', v_scanned)
        using null, null, null, null, queue_name, consumer_name, null, after_dead_letter_id, scan
        into searched_dead_letter_id;
    end if;
    if searched_dead_letter_id is not null then
        return next;
    end if;
end;
$$;

comment on function sluice.list_dead_letters(text, text, jsonb, bigint, integer, boolean, integer, boolean) is
    'Return the next dead letters of a queue, or of a share group or consumer of a log, after a dead_letter_id, lowest or highest first; with scan among the next scan ones: then the last row says where the search ended, and is missing at the end. Filter: an object with any of dead_letter_ids, msg_ids, message and headers (contained), ev_type, reason, error_type, error (the whole error, or its first line with # for numbers, UUIDs and quoted values; empty: none), matching (the msg_id or key, or a text that occurs in the payload or headers in any case; a JSON object or array is contained in them), since and until (dead_at).';
revoke execute on function sluice.list_dead_letters(text, text, jsonb, bigint, integer, boolean, integer, boolean) from public;
grant execute on function sluice.list_dead_letters(text, text, jsonb, bigint, integer, boolean, integer, boolean) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
