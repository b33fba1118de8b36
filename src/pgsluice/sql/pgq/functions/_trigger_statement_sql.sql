create or replace function pgq._trigger_statement_sql(operation text, source_table oid, key text[], ignored text[])
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    -- The row as it was, under the name that all expressions have for a row.
    c_before constant text := '(select %s from (select o.*) as r)';
    v_columns text;
    v_values text;
    v_assignments text;
    v_conditions text[];
    v_key text;
begin
    select
        string_agg(c.ident, ',') filter (where not c.is_hidden),
        string_agg(format('coalesce(quote_literal(%s), ''null'')', c.content), ', ') filter (where not c.is_hidden),
        string_agg(
            format(
                'case when not record_image_eq(row(o.%1$s), row(r.%1$s)) then %2$L || quote_nullable(%3$s) end',
                c.ident, c.ident || '=', c.content
            ),
            ', '
        ) filter (where not c.is_hidden),
        array_agg(format('%L || quote_literal(%s)', c.ident || '=', c.content)) filter (where c.is_key)
    into v_columns, v_values, v_assignments, v_conditions
    from pgq._trigger_columns(source_table, key, ignored) as c;
    if v_conditions is null and operation <> 'INSERT' then
        raise exception using
            errcode = 'PQ007',
            message = 'Update/Delete on table without pkey',
            detail = format('The table has none of the columns %s, so the statement would have no condition.', key),
            hint = 'give pkey= the names of its columns';
    end if;
    v_key := array_to_string(v_conditions, ' || '' and '' || ');

    return case operation
        when 'INSERT' then format(
            '%L || array_to_string(array[%s]::text[], '','') || '')''', format('(%s) values (', v_columns), v_values
        )
        -- An update that changes nothing sets the first column of the key to what it is.
        when 'UPDATE' then format(
            'coalesce(nullif(array_to_string(array[%s]::text[], '',''), ''''), %s) || '' where '' || %s',
            v_assignments, format(c_before, v_conditions[1]), format(c_before, v_key)
        )
        else v_key
    end;
end;
$$;

comment on function pgq._trigger_statement_sql(text, oid, text[], text[]) is
    'SQL that writes a change of a row r of the table as the fragment of a statement, as sqltriga does.';
revoke execute on function pgq._trigger_statement_sql(text, oid, text[], text[]) from public;
grant execute on function pgq._trigger_statement_sql(text, oid, text[], text[]) to public;
