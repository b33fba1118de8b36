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
    'The source of a captured change: its table, the columns of its key, its transaction.';
revoke execute on function sluice._capture_source(text, text, text[]) from public;
grant execute on function sluice._capture_source(text, text, text[]) to pgq_admin, sluice_admin;
