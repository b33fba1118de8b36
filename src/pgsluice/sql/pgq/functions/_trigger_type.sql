create or replace function pgq._trigger_type(kind text, operation text, table_name text[], key text[])
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when kind = 'json' then format(
            '{"op":%s,"table":%s,"pkey":%s}', to_json(operation), array_to_json(table_name), array_to_json(key)
        )
        when operation = 'TRUNCATE' then 'R'
        when kind = 'statement' then left(operation, 1)
        else format('%s:%s', left(operation, 1), array_to_string(key, ','))
    end;
end;
$$;

comment on function pgq._trigger_type(text, text, text[], text[]) is
    'The ev_type that jsontriga, logutriga and sqltriga give the event of a change.';
revoke execute on function pgq._trigger_type(text, text, text[], text[]) from public;
grant execute on function pgq._trigger_type(text, text, text[], text[]) to public;
