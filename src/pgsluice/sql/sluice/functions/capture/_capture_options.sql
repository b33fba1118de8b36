create or replace function sluice._capture_options(argument text)
returns jsonb
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice._require_capture_options(argument::jsonb);
    return argument::jsonb;
exception
    when data_exception then
        return null;
end;
$$;

comment on function sluice._capture_options(text) is
    'Return the options of a capture from the argument of its trigger; null if they are malformed, as after an edit of the trigger.';
revoke execute on function sluice._capture_options(text) from public;
grant execute on function sluice._capture_options(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
