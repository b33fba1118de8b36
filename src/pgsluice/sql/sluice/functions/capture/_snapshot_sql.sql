-- Rows are appended in pieces of up to 64 MB of text and one row, because an array can have no more than 1 GB.
create or replace function sluice._snapshot_sql(
    columns text[], key_columns text[], columns_sql text, options jsonb, out stored_sql text, out row_sql text, out pieces_sql text
)
returns record
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bytes_max constant integer := coalesce((options -> 'row_bytes_max')::integer, 67108864);
    v_fitting constant record := sluice._fitting_columns(columns, key_columns, v_bytes_max);
begin
    stored_sql := v_fitting.stored_sql;
    -- The size of a row counts compressed values as they are stored, at least a 255th.
    row_sql := format(
        'case when %1$s <= %2$s then (select row_to_json(c.*) from (select %3$s) as c)
              else (select row_to_json(c.*) from (select %3$s from %4$s as r) as c) end as content,
         case when %1$s > %2$s then (select array_remove(%5$s, null) from %6$s as s) end as left_out',
        stored_sql, v_bytes_max / 255, columns_sql, v_fitting.fitted_sql, v_fitting.left_out_sql, v_fitting.sizes_sql
    );
    pieces_sql :=
        'select p.contents, p.last_key, array(
             select distinct n.name
             from jsonb_array_elements(p.left_out) as l (names)
             cross join jsonb_array_elements_text(l.names) as n (name)
             order by n.name
         ) as left_out
         from (
             select c.rows_piece, c.bytes_piece, array_agg(c.content order by c.position) as contents,
                 (array_agg(c.key order by c.position desc))[1] as last_key,
                 jsonb_agg(c.left_out) filter (where c.left_out is not null) as left_out
             from (
                 select i.key, i.content, i.left_out, row_number() over () as position,
                     (row_number() over () - 1) / 1000 as rows_piece,
                     coalesce(
                         sum(octet_length(i.content::text)) over (rows between unbounded preceding and 1 preceding), 0
                     ) / 67108864 as bytes_piece
                 from (%s offset 0) as i
             ) as c
             group by c.rows_piece, c.bytes_piece
         ) as p
         order by p.rows_piece, p.bytes_piece';
end;
$$;

comment on function sluice._snapshot_sql(text[], text[], text, jsonb) is
    'Return the SQL of: the size of a row (r) as it is stored; its content without values too large for an event, and the names of their columns; and a format of the SQL that aggregates such rows, with their key, to pieces for sluice._append_rows.';
revoke execute on function sluice._snapshot_sql(text[], text[], text, jsonb) from public;
grant execute on function sluice._snapshot_sql(text[], text[], text, jsonb) to pgq_admin, sluice_admin;
