-- A row beyond the limit is captured without the columns that take more than their share of it: so the rest is within the
-- limit, and its text, in which a character can take six, within that of PostgreSQL, 1 GB for both images of the row. The size
-- of row(x) is that of the value without compression, if it is stored out of line.
create or replace function sluice._fitting_columns(
    columns text[], key_columns text[], bytes_max integer, out size_sql text, out columns_sql text, out left_out_sql text
)
returns record
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_share constant integer := bytes_max / greatest(cardinality(columns), 1);
begin
    size_sql := (
        select format('pg_column_size(row(%s))', string_agg(format('r.%I', c.name), ', ' order by c.position))
        from unnest(columns) with ordinality as c (name, position)
    );
    select string_agg(
            case when c.name = any (key_columns) then format('r.%I', c.name)
                else format(
                    'case when %1$s <= %2$s or pg_column_size(row(r.%3$I)) <= %4$s then r.%3$I end as %3$I',
                    size_sql, bytes_max, c.name, v_share
                ) end,
            ', ' order by c.position
        ),
        format(
            'array[%s]::text[]',
            string_agg(
                format('case when pg_column_size(row(r.%I)) > %s then %L end', c.name, v_share, c.name), ', ' order by c.position
            ) filter (where c.name = any (key_columns) is not true)
        )
    into columns_sql, left_out_sql
    from unnest(columns) with ordinality as c (name, position);
end;
$$;

comment on function sluice._fitting_columns(text[], text[], integer) is
    'Return the SQL of the size of a row (r), the SQL that selects rows without values too large for an event, and the SQL of the names of such columns in a row beyond the limit.';
revoke execute on function sluice._fitting_columns(text[], text[], integer) from public;
grant execute on function sluice._fitting_columns(text[], text[], integer) to pgq_admin, sluice_admin;
