/*
 * The rows of a queue or of its archive as queries that can run at the same time, by ranges of msg_id.
 *
 * A row never changes its msg_id, so no row is read twice or missed because it moved. The first range is
 * open below; the last one ends at the highest msg_id there is now, so that what is sent after this call
 * is not read, however late a query runs.
 *
 * Calls: pgmq.format_table_name. Reads: the queue's or the archive's table.
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
    v_table text;
    v_columns text;
    v_low bigint;
    v_high bigint;
    v_count bigint;
begin
    v_table := format(
        'pgmq.%I',
        pgmq.format_table_name(queue_name, case relation when 'archive' then 'a' else 'q' end)
    );
    execute format('select min(msg_id) - 1, max(msg_id) from %s', v_table) into v_low, v_high;
    if v_high is null then
        return;
    end if;

    -- As text, JSON arrives as it is written, and no client needs to know the type.
    select string_agg(
        case
            when k.name in ('message', 'headers') then format('m.%I::text as %1$I', k.name)
            else format('m.%I', k.name)
        end,
        ', ' order by k.position
    )
    into v_columns
    from unnest(columns) with ordinality as k (name, position);

    v_count := greatest(1, least(slice_count, v_high - v_low));
    return query
        select s.number::integer,
            format('select %s from %s as m where m.msg_id <= %s', v_columns, v_table,
                v_low + ((v_high - v_low)::numeric * s.number / v_count)::bigint)
            || case
                when s.number = 1 then ''
                else format(' and m.msg_id > %s',
                    v_low + ((v_high - v_low)::numeric * (s.number - 1) / v_count)::bigint)
            end
        from generate_series(1, v_count) as s (number)
        order by s.number;
end;
$$;

comment on function sluice.queue_slices(text, text, integer, text[]) is
    'Queries that together give the rows of a queue (relation queue) or its archive (archive), each once.';
revoke execute on function sluice.queue_slices(text, text, integer, text[]) from public;
grant execute on function sluice.queue_slices(text, text, integer, text[]) to sluice_admin, sluice_reader;
