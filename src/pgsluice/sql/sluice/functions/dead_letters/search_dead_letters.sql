/*
 * A search with a bounded cost, newest first: it reads at most scan dead letters of the queue, and returns those that match.
 * The last row has no dead letter, only the id at which the search ended: pass searched_dead_letter_id as
 * before_dead_letter_id to continue. It is missing if the search reached the end.
 *
 * Without contents, payloads, headers and traces are neither read nor returned.
 *
 * Calls: sluice._error_pattern. Reads: sluice.dead_letter, by queue and dead_letter_id.
 */
create or replace function sluice.search_dead_letters(
    queue_name text,
    before_dead_letter_id bigint default null,
    qty integer default 100,
    scan integer default 10000,
    since timestamptz default null,
    until timestamptz default null,
    reason text default null,
    error_type text default null,
    error text default null,
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
    v_scanned constant text :=
        'sluice.dead_letter as d
         where lower(d.queue_name) = lower($1) and ($2 is null or d.dead_letter_id < $2)
         order by lower(d.queue_name) desc, d.dead_letter_id desc';
    v_count integer := 0;
    v_last bigint;
begin
    for letter in
        execute format(
            'select m.dead_letter_id, m.queue_name, m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at,
                case when $10 then m.message end, case when $10 then m.headers end, m.reason, m.error, m.dead_at, m.attempts,
                m.first_failed_at, m.error_type, case when $10 then m.trace end, m.worker
             from (select d.* from %s limit $3) as m
             where ($4 is null or m.dead_at >= $4)
               and ($5 is null or m.dead_at < $5)
               and ($6 is null or m.reason = $6)
               and ($7 is null or coalesce(m.error_type, '''') = $7)
               and ($8 is null or coalesce(sluice._error_pattern(m.error), '''') = $8)
             limit $9 + 1',
            v_scanned
        )
        using queue_name, before_dead_letter_id, scan, since, until, reason, error_type, error, qty, with_contents
    loop
        v_count := v_count + 1;
        exit when v_count > qty;
        v_last := letter.dead_letter_id;
        return next;
    end loop;

    letter := null;
    if v_count > qty then
        searched_dead_letter_id := v_last;
    else
        execute format('select d.dead_letter_id from %s offset $3 - 1 limit 1', v_scanned)
        using queue_name, before_dead_letter_id, scan
        into searched_dead_letter_id;
    end if;
    if searched_dead_letter_id is not null then
        return next;
    end if;
end;
$$;

comment on function sluice.search_dead_letters(text, bigint, integer, integer, timestamptz, timestamptz, text, text, text, boolean) is
    'Return the dead letters of a queue that match a filter, newest first, among the next scan; the last row says where the search ended, and is missing at the end. Error: as in sluice.group_dead_letters; empty texts select dead letters without an error type or an error.';
revoke execute on function sluice.search_dead_letters(text, bigint, integer, integer, timestamptz, timestamptz, text, text, text, boolean) from public;
grant execute on function sluice.search_dead_letters(text, bigint, integer, integer, timestamptz, timestamptz, text, text, text, boolean) to sluice_admin, sluice_reader;
