create or replace function sluice._replayed_headers(headers jsonb, origin jsonb)
returns jsonb
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when jsonb_typeof(headers) = 'object' then headers || jsonb_build_object('x-pgmq-replayed-from', origin)
        when coalesce(jsonb_typeof(headers), 'null') = 'null' then jsonb_build_object('x-pgmq-replayed-from', origin)
        -- Headers that are no object have no place for a key: they go into it.
        else jsonb_build_object('x-pgmq-replayed-from', origin || jsonb_build_object('headers', headers))
    end;
$$;

comment on function sluice._replayed_headers(jsonb, jsonb) is
    'The headers of a message that is sent again: its own, and x-pgmq-replayed-from with where it was.';
revoke execute on function sluice._replayed_headers(jsonb, jsonb) from public;
grant execute on function sluice._replayed_headers(jsonb, jsonb) to sluice_admin;
