create or replace function pgq._trigger_names(list text)
returns text[]
language plpgsql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
begin
    -- White space separates as a comma does, unless it is part of a name.
    return string_to_array(list, ',') || regexp_split_to_array(list, E'[\\s,]+');
end;
$$;

comment on function pgq._trigger_names(text) is
    'Split the list of columns in a trigger argument.';
revoke execute on function pgq._trigger_names(text) from public;
grant execute on function pgq._trigger_names(text) to public;
