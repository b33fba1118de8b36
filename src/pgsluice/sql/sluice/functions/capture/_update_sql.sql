-- Both transition tables are filled together, row by row, and are read in that order: the n-th old row became the n-th new
-- one. A key could not pair them, because it may have changed. The order is also that in which keys were freed and reused.
--
-- Columns are numbered, as a column of the table could have any name used here. Rows are compared, and become JSON, when they
-- are paired: until then a value that is stored out of line is a pointer.
create or replace function sluice._update_sql(
    columns text[], key_columns text[], columns_sql text, key_sql text, old_rows text, new_rows text, before boolean,
    once_bytes integer, leaves_equal boolean
)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    v_names text;
    v_numbers text;
    v_old text;
    v_new text;
    v_unchanged text;
    v_image constant text := '(select %s from (select %s from (select %s) as r) as c)';
    v_before text;
begin
    select string_agg(format(', r.%I', c.name), '' order by c.position),
        string_agg(format(', c%s', c.position), '' order by c.position),
        string_agg(
            format(
                case when once_bytes is null or c.name = any (key_columns) then 'o.c%1$s as %2$I'
                    else 'case when s.names[%1$s] is null then o.c%1$s end as %2$I' end,
                c.position, c.name
            ),
            ', ' order by c.position
        ),
        string_agg(format('n.c%s as %I', c.position, c.name), ', ' order by c.position),
        string_agg(
            case when c.name = any (key_columns) then 'null'
                else format(
                    'case when pg_column_size(o.c%1$s) > %2$s and record_image_eq(row(o.c%1$s), row(n.c%1$s)) then %3$L end',
                    c.position, once_bytes, c.name
                ) end,
            ', ' order by c.position
        )
    into v_names, v_numbers, v_old, v_new, v_unchanged
    from unnest(columns) with ordinality as c (name, position);
    v_before := case
        when not before then format(
            'case when %1$s::text <> %2$s::text then %1$s end',
            format(v_image, key_sql, columns_sql, v_old), format(v_image, key_sql, columns_sql, v_new)
        )
        when once_bytes is null then format(v_image, 'row_to_json(c.*)', columns_sql, v_old)
        else format(
            '(select concat(''{'', string_agg(concat(to_json(m.name), '':'', m.value), '','' order by m.position), ''}'')::json
              from json_each(%s) with ordinality as m (name, value, position)
              where m.name <> all (array_remove(s.names, null)))',
            format(v_image, 'row_to_json(c.*)', columns_sql, v_old)
        )
    end;
    return format(
        'select ''u'' as op, %s as before, %s as after %s
         from (select row_number() over () %s from %s as r) as o (position %s)
         join (select row_number() over () %4$s from %7$s as r) as n (position %6$s) using (position)
         %8$s
         %9$s
         order by position',
        v_before,
        format(v_image, 'row_to_json(c.*)', columns_sql, v_new),
        case when once_bytes is not null then ', array_remove(s.names, null) as unchanged' end,
        v_names, old_rows, v_numbers, new_rows,
        case when once_bytes is not null
            then format('cross join lateral (select array[%s]::text[] as names offset 0) as s', v_unchanged) end,
        case when leaves_equal then format(
            'where not record_image_eq(row(%s), row(%s))',
            replace(substring(v_numbers from 3), 'c', 'o.c'), replace(substring(v_numbers from 3), 'c', 'n.c')
        ) end
    );
end;
$$;

comment on function sluice._update_sql(text[], text[], text, text, text, text, boolean, integer, boolean) is
    'Return the SQL of the changes of an UPDATE: op, before and after, and with once_bytes the columns that before lacks, as their values are large and equal in after; leaves_equal leaves equal rows out.';
revoke execute on function sluice._update_sql(text[], text[], text, text, text, text, boolean, integer, boolean) from public;
grant execute on function sluice._update_sql(text[], text[], text, text, text, text, boolean, integer, boolean) to pgq_admin, sluice_admin;
