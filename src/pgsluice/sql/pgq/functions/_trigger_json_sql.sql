create or replace function pgq._trigger_json_sql(source_table oid, ignored text[])
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        '''{'' || array_to_string(array[%s]::text[], '','') || ''}''',
        string_agg(format('%L || coalesce(%s::text, ''null'')', to_json(c.name) || ':', c.json), ', ')
    )
    from pgq._trigger_columns(source_table, null, ignored) as c
    where not c.is_hidden;
$$;

comment on function pgq._trigger_json_sql(oid, text[]) is
    'SQL that writes a row r of the table as the JSON of jsontriga.';
revoke execute on function pgq._trigger_json_sql(oid, text[]) from public;
grant execute on function pgq._trigger_json_sql(oid, text[]) to public;
