-- A page of a batch without an index by number. Rows of a log are appended, so their places are close to the order of their
-- numbers: for each 64 blocks with events of the batch, the session remembers their lowest and highest number and their
-- count. The first page of a session reads the numbers of the whole batch, each later one the blocks of its events. Without
-- it, each page finds and sorts the batch.
--
-- The blocks are those of the tables' files: TRUNCATE and rewrites give a table another one. Rows of a log are never updated.
create or replace function pgq._batch_page(
    i_queue_id integer, i_owner integer, i_after pg_snapshot, i_upto pg_snapshot, i_after_ev_id bigint, i_qty integer
)
returns setof pgq.event_template
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_range_blocks constant integer := 64;
    v_after constant bigint := coalesce(i_after_ev_id, -9223372036854775808);
    v_parent constant text := format('pgq.%I', format('event_%s', i_queue_id));
    v_key text;
    -- The key; then the table, the range of blocks, the lowest and highest number and the count of each range.
    v_ranges text[] := string_to_array(nullif(current_setting('sluice.batch_ranges', true), ''), ';');
    v_blocks bigint;
    v_upto bigint;
    v_places text;
begin
    -- The parent before its children, as all readers do; the files of the tables stay until the end of the transaction.
    execute format('lock table %s in access share mode', v_parent);
    select
        format('%s %s %s %s %s', i_queue_id, i_owner, i_after, i_upto, string_agg(pg_relation_filenode(t.relid)::text, ' ' order by t.relid)),
        max(pg_relation_size(t.relid)) / current_setting('block_size')::integer
    into v_key, v_blocks
    from (
        select i.inhrelid from pg_inherits as i where i.inhparent = v_parent::regclass
        union all
        select v_parent::regclass
    ) as t (relid);

    if v_ranges[1] is distinct from v_key then
        execute format(
            'select array[$1, coalesce(array_agg(r.tableoid), ''{}'')::text, coalesce(array_agg(r.range), ''{}'')::text,
                coalesce(array_agg(r.lowest), ''{}'')::text, coalesce(array_agg(r.highest), ''{}'')::text,
                coalesce(array_agg(r.events), ''{}'')::text]
             from (
                select event.tableoid::bigint, width_bucket(event.ctid, $2) as range,
                    min(event.ev_id) as lowest, max(event.ev_id) as highest, count(*) as events
                from (%s) as event
                where event.ev_owner is null or event.ev_owner = $3
                group by 1, 2
             ) as r',
            replace(
                pgq._events_between_sql(i_queue_id, i_after, i_upto, 1, 1),
                'event.*', 'event.tableoid, event.ctid, event.ev_id, event.ev_owner'
            )
        )
        using v_key,
            array(select format('(%s,0)', n * v_range_blocks)::tid from generate_series(1, v_blocks / v_range_blocks) as n),
            i_owner
        into v_ranges;
        perform set_config('sluice.batch_ranges', array_to_string(v_ranges, ';'), false);
    end if;

    -- Up to this number there are at least as many events as wanted: all events of the ranges that end there and begin
    -- after the last page. Null: to the end of the batch.
    select r.highest
    into v_upto
    from (
        select r.highest, sum(r.events) filter (where r.lowest > v_after) over (order by r.highest) as events
        from unnest(v_ranges[4]::bigint[], v_ranges[5]::bigint[], v_ranges[6]::bigint[]) as r (lowest, highest, events)
        where r.highest > v_after
    ) as r
    where r.events >= i_qty
    order by r.highest
    limit 1;

    -- Other rows of these blocks belong to other batches.
    select string_agg(
        format(
            'select ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
             from only %s where ctid >= ''(%s,0)'' and ctid < ''(%s,0)''',
            place.relid::regclass, lower(place.ranges) * v_range_blocks, upper(place.ranges) * v_range_blocks
        ),
        ' union all '
    )
    into v_places
    from (
        select r.relid, unnest(range_agg(int8range(r.range, r.range + 1)))
        from unnest(v_ranges[2]::oid[], v_ranges[3]::bigint[], v_ranges[4]::bigint[], v_ranges[5]::bigint[])
            as r (relid, range, lowest, highest)
        where r.highest > v_after
          and (r.lowest <= v_upto or v_upto is null)
        group by r.relid
    ) as place (relid, ranges);
    if v_places is null then
        return;
    end if;
    return query execute format(
        'select event.*
         from (%s) as event
         where event.ev_id > $1
           and event.ev_id <= $2
           and (event.ev_owner is null or event.ev_owner = $3)
           and pg_visible_in_snapshot(event.ev_txid, $4)
           and not pg_visible_in_snapshot(event.ev_txid, $5)
         order by event.ev_id
         fetch first ($6) rows with ties',
        v_places
    )
    using v_after, coalesce(v_upto, 9223372036854775807), i_owner, i_upto, i_after, i_qty;
end;
$$;

comment on function pgq._batch_page(integer, integer, pg_snapshot, pg_snapshot, bigint, integer) is
    'Return a page of a large batch of a log without an index by number: its first i_qty events after an ev_id, by ev_id.';
revoke execute on function pgq._batch_page(integer, integer, pg_snapshot, pg_snapshot, bigint, integer) from public;
grant execute on function pgq._batch_page(integer, integer, pg_snapshot, pg_snapshot, bigint, integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
