/*
 * The rows of a queue, of its archive or its dead letters as queries that can run in parallel, by ranges of their id.
 *
 * A row never changes its id, so no row is read twice or missed because it moved. The first range is open below; the last
 * one ends at the highest id now, so that messages sent after this call are not read, however late a query runs.
 *
 * Id ranges do not reflect row counts: the ids of a queue's oldest messages are far apart, because most between them were
 * archived. So the ranges end at quantiles of the ids on randomly sampled pages: about equal row counts. Statistics would
 * do too, but those of a queue are soon outdated.
 *
 * Calls: pgmq.format_table_name, sluice._message_columns_sql, sluice.export_backlog. Reads: the queue's or the archive's table, or sluice.dead_letter.
 */
create or replace function sluice.queue_slices(
    queue_name text, relation text, slice_count integer, columns text[], export_name text default null
)
returns table (slice integer, query text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    -- 3 MB, read in a few milliseconds. The size of a range is then off by a few percent.
    v_pages_max constant integer := 400;
    v_table text;
    v_id text := 'msg_id';
    v_condition text := 'true';
    v_columns text := sluice._message_columns_sql(columns, false);
    v_lowest bigint;
    v_highest bigint;
    v_pages bigint;
    v_bounds bigint[];
begin
    if relation = 'dead_letters' then
        v_table := 'sluice.dead_letter_message';
        v_id := 'dead_letter_id';
        v_condition := format('lower(m.queue_name) = %L', lower(queue_name));
    else
        v_table := format(
            'pgmq.%I', pgmq.format_table_name(queue_name, case relation when 'archive' then 'a' else 'q' end)
        );
    end if;
    if export_name is not null then
        v_condition := sluice._unverified_sql((sluice._require_export(queue_name, export_name)).export_id);
        select array_agg(part.last_msg_id), min(part.first_msg_id) - 1, max(part.last_msg_id)
        into v_bounds, v_lowest, v_highest
        from (
            select min(p.first_msg_id), max(p.last_msg_id)
            from (
                select b.*, sum(b.messages) over (order by b.first_msg_id) / sum(b.messages) over () as share
                from sluice.export_backlog(queue_name, export_name) as b
            ) as p
            group by ceil(p.share * greatest(slice_count, 1))
        ) as part (first_msg_id, last_msg_id);
    else
        execute format('select max(m.%I) from %s as m where %s', v_id, v_table, v_condition) into v_highest;
    end if;
    if v_highest is null then
        return;
    end if;

    if slice_count > 1 and export_name is null then
        -- Each partition of a partitioned table has its pages.
        select sum(pg_relation_size(part.relid)) / current_setting('block_size')::integer
        into v_pages
        from pg_partition_tree(v_table) as part;
        -- The same pages each time if the table is unchanged, so a repeated read has the same ranges.
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
            select u.bound, lag(u.bound, 1, v_lowest) over (order by u.bound) as bound_before
            from (
                select unnest(v_bounds)
                union
                select v_highest
            ) as u (bound)
        ) as b
        order by b.bound;
end;
$$;

comment on function sluice.queue_slices(text, text, integer, text[], text) is
    'Return queries that together read each row of a queue (relation queue), its archive (archive) or its dead letters (dead_letters) once; with an export only the archived messages that it has not verified, the same ones in one snapshot only.';
revoke execute on function sluice.queue_slices(text, text, integer, text[], text) from public;
grant execute on function sluice.queue_slices(text, text, integer, text[], text) to sluice_admin, sluice_reader;
