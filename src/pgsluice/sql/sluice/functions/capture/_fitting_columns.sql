-- A row beyond the limit is captured without the columns that take more than their share of it: so the rest is within the
-- limit, and its text, in which a character can take six, within that of PostgreSQL, 1 GB for both images of the row. Each
-- column is measured by itself, as a row that holds all of them can have more than 1 GB. A value that is not compressed, or
-- has more than the limit as it is stored, is not read for its size. The size of row(x) is that of the value without
-- compression, if it is stored out of line.
create or replace function sluice._fitting_columns(
    columns text[], key_columns text[], bytes_max integer,
    out stored_sql text, out sizes_sql text, out left_out_sql text, out fitted_sql text
)
returns record
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    v_share constant integer := bytes_max / greatest(cardinality(columns), 1);
begin
    select concat_ws(' + ', '0::bigint', string_agg(format('coalesce(pg_column_size(r.%I), 0)', c.name), ' + ' order by c.position)),
        -- Of each row once: without OFFSET the planner would copy the measuring to each use of a size.
        format(
            '(select m.sizes, (select sum(b.bytes) from unnest(m.sizes) as b (bytes)) as total from (select array[%s]::bigint[] as sizes offset 0) as m offset 0)',
            string_agg(
                format(
                    'case when pg_column_compression(r.%1$I) is null or pg_column_size(r.%1$I) > %2$s then coalesce(pg_column_size(r.%1$I), 0) else pg_column_size(row(r.%1$I)) end',
                    c.name, bytes_max
                ),
                ', ' order by c.position
            )
        ),
        format(
            'array[%s]::text[]',
            string_agg(
                format('case when s.total > %s and s.sizes[%s] > %s then %L end', bytes_max, c.position, v_share, c.name),
                ', ' order by c.position
            ) filter (where c.name = any (key_columns) is not true)
        ),
        string_agg(
            case when c.name = any (key_columns) then format('r.%I', c.name)
                else format(
                    'case when s.total <= %s or s.sizes[%s] <= %s then r.%4$I end as %4$I', bytes_max, c.position, v_share, c.name
                ) end,
            ', ' order by c.position
        )
    into stored_sql, sizes_sql, left_out_sql, fitted_sql
    from unnest(columns) with ordinality as c (name, position);
    fitted_sql := format('(select %s from %s as s)', fitted_sql, sizes_sql);
end;
$$;

comment on function sluice._fitting_columns(text[], text[], integer) is
    'Return the SQL of: the size of a row (r) as it is stored; its sizes without compression (s); the names of its columns without a value in an event, as they are too large; and the row without these values.';
revoke execute on function sluice._fitting_columns(text[], text[], integer) from public;
grant execute on function sluice._fitting_columns(text[], text[], integer) to pgq_admin, sluice_admin;
