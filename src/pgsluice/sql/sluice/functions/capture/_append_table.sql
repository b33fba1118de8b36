create or replace function sluice._append_table(source_table regclass, part regclass, log_name text, options jsonb)
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
    v_shape constant record := sluice._capture_shape(source_table::oid, options, null::text[], null::oid[]);
    v_sql constant record := sluice._snapshot_sql(v_shape.kept_columns, v_shape.key_columns, v_shape.columns_sql, options);
    v_piece record;
begin
    perform sluice._require_all_rows(part);
    perform sluice._note_shape(
        source_table::oid, v_shape.shape, v_shape.kept_columns, null::text[], null::oid[]
    );
    for v_piece in
        execute format(v_sql.pieces_sql, format('select null::jsonb as key, %s from %s as r', v_sql.row_sql, part))
    loop
        perform sluice._append_rows(
            log_name, v_shape.schema_name, v_shape.table_name, v_shape.key_columns, v_shape.shape, v_piece.contents,
            v_piece.left_out
        );
    end loop;
end;
$$;

comment on function sluice._append_table(regclass, regclass, text, jsonb) is
    'Append all rows of a captured table, or of one partition of it, as snapshot events; the caller locks writers out.';
revoke execute on function sluice._append_table(regclass, regclass, text, jsonb) from public;
grant execute on function sluice._append_table(regclass, regclass, text, jsonb) to pgq_admin, sluice_admin;
