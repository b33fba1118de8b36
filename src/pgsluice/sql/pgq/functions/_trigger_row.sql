create or replace function pgq._trigger_row(
    kind text, names text[], types oid[], contents text[], hidden boolean[], changed_row anyelement
)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_fields text[] := '{}';
    v_json json;
begin
    if kind = 'json' and types && '{boolean,date,timestamp,timestamptz}'::regtype[]::oid[] then
        v_json := row_to_json(changed_row);
    end if;
    for v_column in 1..cardinality(names)
    loop
        if hidden[v_column] then
            continue;
        end if;
        v_fields := v_fields || case
            when kind <> 'json' then
                pgq._urlencode(names[v_column]) || coalesce('=' || pgq._urlencode(contents[v_column]), '')
            else to_json(names[v_column])::text || ':' || case
                when contents[v_column] is null then 'null'
                -- Only these types are native in the JSON; types derived from them, such as domains, become strings.
                when types[v_column] in ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) then
                    contents[v_column]
                when types[v_column] in (
                    'boolean'::regtype, 'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype
                ) then (v_json -> names[v_column])::text
                else to_json(contents[v_column])::text
            end
        end;
    end loop;
    return case kind
        when 'json' then '{' || array_to_string(v_fields, ',') || '}'
        else array_to_string(v_fields, '&')
    end;
end;
$$;

comment on function pgq._trigger_row(text, text[], oid[], text[], boolean[], anyelement) is
    'Return a whole row, as the JSON of jsontriga or as the form fields of logutriga.';
revoke execute on function pgq._trigger_row(text, text[], oid[], text[], boolean[], anyelement) from public;
grant execute on function pgq._trigger_row(text, text[], oid[], text[], boolean[], anyelement) to public;
