/*
 * The ordering key of an event. Our functions run with their owner's rights, so a key is not SQL of the user: it is a field,
 * or a path of members and elements into ev_data, which can neither fail nor call a function.
 *
 * An event without a value there has no key. A long key is shortened to its first part and a hash, because keys are indexed.
 */
create or replace function sluice._event_key(
    i_key text, i_ev_type text, i_ev_data text, i_ev_extra1 text, i_ev_extra2 text, i_ev_extra3 text, i_ev_extra4 text
)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bytes_max constant integer := 400;
    v_chars_kept constant integer := 64;
    v_key text := case i_key
        when 'ev_type' then i_ev_type
        when 'ev_data' then i_ev_data
        when 'ev_extra1' then i_ev_extra1
        when 'ev_extra2' then i_ev_extra2
        when 'ev_extra3' then i_ev_extra3
        when 'ev_extra4' then i_ev_extra4
    end;
begin
    if starts_with(i_key, '$') then
        begin
            v_key := jsonb_path_query_first(i_ev_data::jsonb, i_key::jsonpath, '{}', true) #>> '{}';
        exception
            -- Not JSON; or JSON with \u0000, with a number or text too large for jsonb, or nested too deeply.
            when invalid_text_representation or untranslatable_character or numeric_value_out_of_range
                or program_limit_exceeded or statement_too_complex then
                null;
        end;
    end if;
    if octet_length(v_key) > v_bytes_max then
        return format('%s...%s', left(v_key, v_chars_kept), encode(sha256(convert_to(v_key, 'UTF8')), 'hex'));
    end if;
    return v_key;
end;
$$;

comment on function sluice._event_key(text, text, text, text, text, text, text) is
    'Return the key of an event by the option key of a share group: a field, or a JSON path into its data; null: no key.';
revoke execute on function sluice._event_key(text, text, text, text, text, text, text) from public;
grant execute on function sluice._event_key(text, text, text, text, text, text, text) to pgq_admin, sluice_admin;
