create or replace function pgq._trigger_urlencoded_sql(source_table oid, ignored text[])
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        'pgq._urlencode_row(%L, array[%s]::text[])', coalesce(array_agg(c.name), '{}'), string_agg(c.content, ', ')
    )
    from pgq._trigger_columns(source_table, null, ignored) as c
    where not c.is_hidden;
$$;

comment on function pgq._trigger_urlencoded_sql(oid, text[]) is
    'SQL that writes a row r of the table as the form fields of logutriga.';
revoke execute on function pgq._trigger_urlencoded_sql(oid, text[]) from public;
grant execute on function pgq._trigger_urlencoded_sql(oid, text[]) to public;
