/*
 * Filters that Spark would apply to the rows it has read, as conditions of the queries that read them.
 *
 * Each condition is {"column": ..., "test": ..., "value": ...}: a text, or for "in" and "not in" an array of texts. A value
 * becomes a literal without a type, which PostgreSQL reads as the column's. It has to be a literal: the queries
 * travel as text and run elsewhere, some of them inside COPY, which takes no parameters.
 *
 * The planner merges the inner query with the outer, so that a condition on an id is one of its index.
 */
create or replace function sluice.filter_queries(queries text[], conditions jsonb)
returns table (slice integer, query text)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_condition record;
    v_test text;
    v_where text;
begin
    for v_condition in
        select c.value ->> 'column' as name, c.value ->> 'test' as test, c.value ->> 'value' as value,
            case jsonb_typeof(c.value -> 'value')
                when 'array' then array(select jsonb_array_elements_text(c.value -> 'value'))::text
            end as list
        from jsonb_array_elements(conditions) as c (value)
    loop
        v_test := case v_condition.test
            when '=' then '%1$s = %2$L'
            when '<>' then '%1$s <> %2$L'
            when '<' then '%1$s < %2$L'
            when '<=' then '%1$s <= %2$L'
            when '>' then '%1$s > %2$L'
            when '>=' then '%1$s >= %2$L'
            when 'in' then '%1$s = any (%3$L)'
            when 'not in' then '%1$s <> all (%3$L)'
            when 'is null' then '%1$s is null'
            when 'is not null' then '%1$s is not null'
            when 'starts with' then 'pg_catalog.starts_with(%1$s, %2$L)'
            when 'contains' then 'pg_catalog.strpos(%1$s, %2$L) > 0'
        end;
        if v_test is null then
            raise exception using
                errcode = '22023',
                message = format('%L is no test of a column', v_condition.test),
                hint = 'use =, <>, <, <=, >, >=, in, not in, is null, is not null, starts with or contains';
        end if;
        v_where := concat_ws(
            ' and ',
            v_where,
            format(v_test, format('selected.%I', v_condition.name), v_condition.value, v_condition.list)
        );
    end loop;

    return query
        select q.number::integer,
            case
                when v_where is null then q.query
                else format('select selected.* from (%s) as selected where %s', q.query, v_where)
            end
        from unnest(queries) with ordinality as q (query, number)
        order by q.number;
end;
$$;

comment on function sluice.filter_queries(text[], jsonb) is
    'Return the given queries restricted to rows that meet all conditions, each {"column", "test", "value"}, in the given order.';
revoke execute on function sluice.filter_queries(text[], jsonb) from public;
grant execute on function sluice.filter_queries(text[], jsonb) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
