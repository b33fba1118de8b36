create or replace function pgq._trigger_statement(
    operation text, names text[], contents_before text[], contents_after text[], in_key boolean[], hidden boolean[]
)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_columns text[] := '{}';
    v_values text[] := '{}';
    v_assignments text[] := '{}';
    v_conditions text[] := '{}';
    v_ident text;
begin
    for v_column in 1..cardinality(names)
    loop
        v_ident := quote_ident(names[v_column]);
        if in_key[v_column] then
            v_conditions := v_conditions || (v_ident || '=' || quote_literal(contents_before[v_column]));
        end if;
        if not hidden[v_column] then
            v_columns := v_columns || v_ident;
            v_values := v_values || coalesce(quote_literal(contents_after[v_column]), 'null');
            if contents_before[v_column] is distinct from contents_after[v_column] then
                v_assignments := v_assignments || format('%s=%s', v_ident, quote_nullable(contents_after[v_column]));
            end if;
        end if;
    end loop;
    -- The statement could not identify a row.
    if operation <> 'INSERT' and (v_conditions = '{}' or array_position(v_conditions, null) is not null) then
        return null;
    end if;

    return case operation
        when 'INSERT' then
            format('(%s) values (%s)', array_to_string(v_columns, ','), array_to_string(v_values, ','))
        when 'UPDATE' then format(
            '%s where %s',
            -- An update that changes nothing sets the first key column to its own value.
            array_to_string(case v_assignments when '{}' then v_conditions[1:1] else v_assignments end, ','),
            array_to_string(v_conditions, ' and ')
        )
        else array_to_string(v_conditions, ' and ')
    end;
end;
$$;

comment on function pgq._trigger_statement(text, text[], text[], text[], boolean[], boolean[]) is
    'Return a change as a statement fragment, as sqltriga writes it; null without a key, or with a null in it.';
revoke execute on function pgq._trigger_statement(text, text[], text[], text[], boolean[], boolean[]) from public;
grant execute on function pgq._trigger_statement(text, text[], text[], text[], boolean[], boolean[]) to public;
