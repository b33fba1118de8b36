create or replace function sluice._append_table(source_table regclass, part regclass, queue_name text, options jsonb)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
set timezone = 'UTC'
set datestyle = 'ISO'
set intervalstyle = 'iso_8601'
set bytea_output = 'hex'
set extra_float_digits = 1
set lc_monetary = 'C'
as $$
declare
    v_rows_at_once constant integer := 1000;
    v_shape constant record := sluice._capture_shape(source_table::oid, options, null::text[], null::oid[]);
    v_contents json[];
begin
    perform sluice._require_all_rows(part);
    perform sluice._note_shape(
        source_table::oid, v_shape.shape, v_shape.kept_columns, null::text[], null::oid[]
    );
    for v_contents in
        execute format(
            'select array_agg(c.content)
             from (
                 select (select row_to_json(c.*) from (select %s) as c) as content,
                     (row_number() over () - 1) / $1 as piece
                 from %s as r
             ) as c
             group by c.piece
             order by c.piece',
            v_shape.columns_sql, part
        )
        using v_rows_at_once
    loop
        perform sluice._append_rows(
            queue_name, v_shape.schema_name, v_shape.table_name, v_shape.key_columns, v_shape.shape, v_contents
        );
    end loop;
end;
$$;

comment on function sluice._append_table(regclass, regclass, text, jsonb) is
    'Append all rows of a captured table, or of one partition of it, as snapshot events; the caller locks writers out.';
revoke execute on function sluice._append_table(regclass, regclass, text, jsonb) from public;
grant execute on function sluice._append_table(regclass, regclass, text, jsonb) to pgq_admin, sluice_admin;
