-- The statement that copies a table's rows to a client as text in which equal values are equal, whatever the session
-- has set: a program that read the same rows elsewhere can write them so too, and compare.
--
-- A form for each column says how its values are written:
--   text     as its type's output function does
--   json     as row_to_json does, without the quotes around a string; null for a null of JSON
--   micros   a timestamp, in microseconds since 1970-01-01, in UTC; infinity and -infinity in words
--   time     microseconds since midnight
--   days     a date, in days since 1970-01-01; infinity and -infinity in words
--   numeric  without zeros at the end
--   float4, float8  the bits of the number as an integer; NaN, which has many, in a word
--   hex      bytes, two digits for each
--
-- Names of the table are qualified; the functions and operators are PostgreSQL's, so run it with a search_path in which
-- nothing comes before pg_catalog.
create or replace function sluice.canonical_copy(
    relation regclass, columns text[], forms text[], only_where_null text default null
)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_unknown text;
    v_columns text;
begin
    if relation is null or columns is null or forms is null or cardinality(columns) <> cardinality(forms) then
        raise exception using
            errcode = '22023',
            message = 'columns and their forms are not given in pairs',
            hint = 'give a table, its columns, and one form for each';
    end if;

    -- A real is a double of other digits: 0.1 of the one is 0.1 of the other as text only.
    select string_agg(
            format(
                case f.form
                    when 'text' then 'r.%1$I::text'
                    when 'json' then 'to_json(r.%1$I) #>> ''{}'''
                    when 'micros' then
                        'case when isfinite(r.%1$I) then (extract(epoch from r.%1$I) * 1000000)::bigint::text'
                        ' else r.%1$I::text end'
                    when 'time' then '(extract(epoch from r.%1$I) * 1000000)::bigint'
                    when 'days' then
                        'case when isfinite(r.%1$I) then (r.%1$I - date ''1970-01-01'')::text else r.%1$I::text end'
                    when 'numeric' then 'trim_scale(r.%1$I::numeric)::text'
                    when 'float4' then
                        'case when r.%1$I = ''NaN'' then ''NaN'''
                        ' else (''x'' || encode(float4send(r.%1$I::text::real), ''hex''))::bit(32)::integer::text end'
                    when 'float8' then
                        'case when r.%1$I = ''NaN'' then ''NaN'''
                        ' else (''x'' || encode(float8send(r.%1$I::text::double precision), ''hex''))::bit(64)::bigint::text'
                        ' end'
                    when 'hex' then 'encode(r.%1$I, ''hex'')'
                end,
                c.name
            ),
            ', ' order by c.position
        ),
        min(coalesce(f.form, 'null')) filter (
            where f.form is null
               or f.form <> all ('{text,json,micros,time,days,numeric,float4,float8,hex}')
        )
    into v_columns, v_unknown
    from unnest(columns) with ordinality as c (name, position)
    join unnest(forms) with ordinality as f (form, position) using (position);
    if v_unknown is not null then
        raise exception using
            errcode = '22023',
            message = format('no values are written in the form %L', v_unknown),
            hint = 'the forms are text, json, micros, time, days, numeric, float4, float8 and hex';
    end if;
    return format(
        'copy (select %s from %s as r%s) to stdout',
        v_columns, relation, case when only_where_null is not null then format(' where r.%I is null', only_where_null) end
    );
end;
$$;

comment on function sluice.canonical_copy(regclass, text[], text[], text) is
    'The COPY statement that writes a table''s rows as text in which equal values are equal; a form for each column, and only rows in which one column is null.';
revoke execute on function sluice.canonical_copy(regclass, text[], text[], text) from public;
grant execute on function sluice.canonical_copy(regclass, text[], text[], text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
