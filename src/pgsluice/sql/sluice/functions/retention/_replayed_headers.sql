create or replace function sluice._replayed_headers(headers jsonb, origin jsonb)
returns jsonb
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when jsonb_typeof(headers) = 'object' then headers || jsonb_build_object('x-pgmq-replayed-from', origin)
        when coalesce(jsonb_typeof(headers), 'null') = 'null' then jsonb_build_object('x-pgmq-replayed-from', origin)
        -- Headers that are not an object cannot take a key: they are nested below it.
        else jsonb_build_object('x-pgmq-replayed-from', origin || jsonb_build_object('headers', headers))
    end;
$$;

comment on function sluice._replayed_headers(jsonb, jsonb) is
    'Return the headers of a replayed message: its own, and its origin in x-pgmq-replayed-from.';
revoke execute on function sluice._replayed_headers(jsonb, jsonb) from public;
grant execute on function sluice._replayed_headers(jsonb, jsonb) to sluice_admin;
