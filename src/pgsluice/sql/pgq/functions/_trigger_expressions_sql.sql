-- The expressions come from the creator of the trigger. They run as the role that changes the table, as in any trigger,
-- and with that session's search_path: so all names added here are qualified.
create or replace function pgq._trigger_expressions_sql(expressions text[])
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    -- The type's output function, as for columns. The line break ends a comment at the end of an expression.
    c_text constant text :=
        'case when pg_catalog.int4eq(pg_catalog.num_nulls(e.value), 0) then pg_catalog.format(''%s'', e.value) end';
    c_from constant text := E'from (select %s\n) as e (value)';
    v_fields text[];
    v_when text := 'true';
begin
    for v_field in 1..6
    loop
        v_fields[v_field] := case
            when expressions[v_field] is null then format('$2[%s]', v_field)
            else format('(select %s %s)', c_text, format(c_from, expressions[v_field]))
        end;
    end loop;
    if expressions[7] is not null then
        v_when := format(
            '(select pgq._trigger_when(pg_catalog.pg_typeof(e.value), %s) %s)', c_text, format(c_from, expressions[7])
        );
    end if;
    return format(
        'select array[%s]::text[], %s from (select ($1).*) as r', array_to_string(v_fields, ', '), v_when
    );
end;
$$;

comment on function pgq._trigger_expressions_sql(text[]) is
    'Return SQL that sets the fields of an event by a trigger''s expressions and evaluates when=.';
revoke execute on function pgq._trigger_expressions_sql(text[]) from public;
grant execute on function pgq._trigger_expressions_sql(text[]) to public;
