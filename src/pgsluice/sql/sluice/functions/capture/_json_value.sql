create or replace function sluice._json_value(i_data text, i_path text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return jsonb_path_query_first(i_data::jsonb, i_path::jsonpath, '{}', true) #>> '{}';
exception
    -- No JSON; JSON with \u0000, with a number or a text too large for jsonb, or nested too deep.
    when invalid_text_representation or untranslatable_character or numeric_value_out_of_range
        or program_limit_exceeded or statement_too_complex then
        return null;
end;
$$;

comment on function sluice._json_value(text, text) is
    'The value at a path in a text that may be JSON, as text; null when there is none, or no JSON.';
revoke execute on function sluice._json_value(text, text) from public;
grant execute on function sluice._json_value(text, text) to pgq_admin, sluice_admin;
