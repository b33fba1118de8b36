create or replace function sluice._json_or_null(value text)
returns jsonb
language plpgsql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
begin
    if left(ltrim(value, e' \t\n\r'), 1) not in ('{', '[') then
        return null;
    end if;
    return value::jsonb;
exception
    when data_exception or program_limit_exceeded then
        return null;
end;
$$;

comment on function sluice._json_or_null(text) is
    'Return a text as JSON if it is a JSON object or array; null: it is neither.';
revoke execute on function sluice._json_or_null(text) from public;
grant execute on function sluice._json_or_null(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
