create or replace function pgq._urlencode_row(names text[], contents text[])
returns text
language sql
stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(string_agg(
        case when field.name ~ '[^A-Za-z0-9_.-]' then pgq._urlencode(field.name) else field.name end
            || case
                when field.content is null then ''
                when field.content ~ '[^A-Za-z0-9_.-]' then '=' || pgq._urlencode(field.content)
                else '=' || field.content
            end,
        '&' order by field.position
    ), '')
    from unnest(names, contents) with ordinality as field (name, content, position);
$$;

comment on function pgq._urlencode_row(text[], text[]) is
    'Columns as application/x-www-form-urlencoded, in their order; a null is a name without =.';
revoke execute on function pgq._urlencode_row(text[], text[]) from public;
grant execute on function pgq._urlencode_row(text[], text[]) to public;
