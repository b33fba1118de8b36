create or replace function sluice._keyed_headers(headers jsonb, key text)
returns jsonb
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if key is null then
        return headers;
    elsif coalesce(jsonb_typeof(headers), 'null') not in ('null', 'object') then
        raise exception using
            errcode = '22023',
            message = format('headers are no object but %s', left(headers::text, 60)),
            detail = format('There is no place in them for the key %L.', left(key, 60)),
            hint = 'give headers that are an object, or no key';
    end if;
    return coalesce(nullif(headers, 'null'), '{}') || jsonb_build_object('x-pgmq-group', key);
end;
$$;

comment on function sluice._keyed_headers(jsonb, text) is
    'Headers with the key that a message is kept in order by, x-pgmq-group; null: as they are.';
revoke execute on function sluice._keyed_headers(jsonb, text) from public;
grant execute on function sluice._keyed_headers(jsonb, text) to sluice_admin, sluice_writer;
