-- Equal values have equal text whatever the session settings, so that a program can write rows from elsewhere in the
-- same form and compare them.
--
-- The form of a column defines the text of its values:
--   text     the output of its type's output function
--   json     the output of row_to_json, without the quotes around a string
--   document  the output of row_to_json as it is, for JSON and arrays; null for a JSON null
--   micros   a timestamp, in microseconds since 1970-01-01, in UTC; infinity and -infinity in words
--   micros_bounded, days_bounded  as micros and days, with infinity and -infinity as the last and first of the years 1 to
--            9999
--   time     microseconds since midnight
--   days     a date, in days since 1970-01-01; infinity and -infinity in words
--   numeric  without trailing zeros
--   float4, float8  the bits of the number as an integer, -0 as 0; NaN, which has several bit patterns, as a word
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
                    -- Not decoded: text has no character for \u0000 and half surrogates.
                    when 'document' then
                        'case when json_typeof(to_json(r.%1$I)) <> ''null'' then'
                        ' btrim(to_json(r.%1$I)::text, '' '' || chr(9) || chr(10) || chr(13)) end'
                    when 'micros' then
                        'case when isfinite(r.%1$I) then (extract(epoch from r.%1$I) * 1000000)::bigint::text'
                        ' else r.%1$I::text end'
                    when 'micros_bounded' then
                        'case r.%1$I::text when ''infinity'' then ''253402300799999999'''
                        ' when ''-infinity'' then ''-62135596800000000'''
                        ' else (extract(epoch from r.%1$I) * 1000000)::bigint::text end'
                    when 'days_bounded' then
                        'case r.%1$I::text when ''infinity'' then ''2932896'' when ''-infinity'' then ''-719162'''
                        ' else (r.%1$I - date ''1970-01-01'')::text end'
                    when 'time' then '(extract(epoch from r.%1$I) * 1000000)::bigint'
                    when 'days' then
                        'case when isfinite(r.%1$I) then (r.%1$I - date ''1970-01-01'')::text else r.%1$I::text end'
                    when 'numeric' then 'trim_scale(r.%1$I::numeric)::text'
                    when 'float4' then
                        'case when r.%1$I = ''NaN'' then ''NaN'''
                        ' else (''x'' || encode(float4send(r.%1$I::text::real + 0::real), ''hex''))::bit(32)::integer::text end'
                    when 'float8' then
                        'case when r.%1$I = ''NaN'' then ''NaN'''
                        ' else (''x'' || encode(float8send(r.%1$I::text::double precision + 0), ''hex''))::bit(64)::bigint::text'
                        ' end'
                    when 'hex' then 'encode(r.%1$I, ''hex'')'
                end,
                c.name
            ),
            ', ' order by c.position
        ),
        min(coalesce(f.form, 'null')) filter (
            where f.form is null
               or f.form <> all ('{text,json,document,micros,micros_bounded,time,days,days_bounded,numeric,float4,float8,hex}')
        )
    into v_columns, v_unknown
    from unnest(columns) with ordinality as c (name, position)
    join unnest(forms) with ordinality as f (form, position) using (position);
    if v_unknown is not null then
        raise exception using
            errcode = '22023',
            message = format('no values are written in the form %L', v_unknown),
            hint = 'the forms are text, json, document, micros, micros_bounded, time, days, days_bounded, numeric, float4, float8 and hex';
    end if;
    return format(
        'copy (select %s from %s as r%s) to stdout',
        v_columns, relation, case when only_where_null is not null then format(' where r.%I is null', only_where_null) end
    );
end;
$$;

comment on function sluice.canonical_copy(regclass, text[], text[], text) is
    'Return the COPY statement that writes a table''s rows in a canonical text form, given for each column; optionally only rows in which one column is null.';
revoke execute on function sluice.canonical_copy(regclass, text[], text[], text) from public;
grant execute on function sluice.canonical_copy(regclass, text[], text[], text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
