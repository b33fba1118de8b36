create or replace function sluice._capture_source(schema_name text, table_name text, key_columns text[])
returns json
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return json_build_object(
        'schema', schema_name, 'table', table_name, 'key', key_columns, 'txId', pg_current_xact_id()::text::bigint
    );
end;
$$;

comment on function sluice._capture_source(text, text, text[]) is
    'Return the source of a captured change: table, key columns and transaction.';
revoke execute on function sluice._capture_source(text, text, text[]) from public;
grant execute on function sluice._capture_source(text, text, text[]) to pgq_admin, sluice_admin;
