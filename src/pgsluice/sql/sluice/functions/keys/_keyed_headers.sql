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
            message = format('headers must be a JSON object, got %s', left(headers::text, 60)),
            detail = format('They cannot take the key %L.', left(key, 60)),
            hint = 'pass headers that are an object, or no key';
    end if;
    return coalesce(nullif(headers, 'null'), '{}') || jsonb_build_object('x-pgmq-group', key);
end;
$$;

comment on function sluice._keyed_headers(jsonb, text) is
    'Return headers with the ordering key of a message, x-pgmq-group; null: unchanged.';
revoke execute on function sluice._keyed_headers(jsonb, text) from public;
grant execute on function sluice._keyed_headers(jsonb, text) to sluice_admin, sluice_writer;
