/*
 * The rows of a queue, of its archive or its dead letters as queries that can run at the same time, by ranges of
 * their id.
 *
 * A row never changes its id, so no row is read twice or missed because it moved. The first range is open below;
 * the last one ends at the highest id there is now, so that what is sent after this call is not read, however late
 * a query runs.
 *
 * Ids are no measure of rows: those of a queue's oldest messages are far apart, as most were archived between
 * them. So the ranges end at quantiles of the ids on some pages, drawn at random: about as many rows in each.
 * Statistics would do too, but those of a queue are old as soon as they are there.
 *
 * Calls: pgmq.format_table_name, sluice._message_columns_sql. Reads: the queue's or the archive's table, or sluice.dead_letter.
 */
create or replace function sluice.queue_slices(
    queue_name text, relation text, slice_count integer, columns text[]
)
returns table (slice integer, query text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    -- 3 MB, read in some milliseconds. The share of a range is then off by a few in a hundred.
    v_pages_max constant integer := 400;
    v_table text;
    v_id text := 'msg_id';
    v_condition text := 'true';
    v_columns text := sluice._message_columns_sql(columns, false);
    v_highest bigint;
    v_pages bigint;
    v_bounds bigint[];
begin
    if relation = 'dead_letters' then
        v_table := 'sluice.dead_letter';
        v_id := 'dead_letter_id';
        v_condition := format('lower(m.queue_name) = %L', lower(queue_name));
    else
        v_table := format(
            'pgmq.%I', pgmq.format_table_name(queue_name, case relation when 'archive' then 'a' else 'q' end)
        );
    end if;
    execute format('select max(m.%I) from %s as m where %s', v_id, v_table, v_condition) into v_highest;
    if v_highest is null then
        return;
    end if;

    if slice_count > 1 then
        -- Of a partitioned table each partition has its pages.
        select sum(pg_relation_size(part.relid)) / current_setting('block_size')::integer
        into v_pages
        from pg_partition_tree(v_table) as part;
        -- The same pages each time, as long as the table is the same: so are the ranges when a read is repeated.
        execute format(
            'select percentile_disc(array(select n::float8 / $1 from generate_series(1, $1 - 1) as n))
                 within group (order by m.%I)
             from %s as m tablesample system (least(100, 100.0 * $2 / $3)) repeatable (0)
             where %s',
            v_id, v_table, v_condition
        )
        using slice_count, v_pages_max, greatest(v_pages, 1)
        into v_bounds;
    end if;

    return query
        select row_number() over (order by b.bound)::integer,
            format('select %s from %s as m where %s and m.%I <= %s', v_columns, v_table, v_condition, v_id, b.bound)
            || case
                when b.bound_before is null then ''
                else format(' and m.%I > %s', v_id, b.bound_before)
            end
        from (
            select u.bound, lag(u.bound) over (order by u.bound) as bound_before
            from (
                select unnest(v_bounds)
                union
                select v_highest
            ) as u (bound)
        ) as b
        order by b.bound;
end;
$$;

comment on function sluice.queue_slices(text, text, integer, text[]) is
    'Queries that together give the rows of a queue (relation queue), its archive (archive) or its dead letters (dead_letters), each once.';
revoke execute on function sluice.queue_slices(text, text, integer, text[]) from public;
grant execute on function sluice.queue_slices(text, text, integer, text[]) to sluice_admin, sluice_reader;
