-- Casts each value to the type of its field: a number becomes an interval in seconds.
create or replace function sluice._with_options(i_record anyelement, i_options jsonb, i_names text[], i_of text)
returns anyelement
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_record alias for $1;
    v_option record;
    v_message text;
begin
    if jsonb_typeof(i_options) is distinct from 'object' then
        raise exception using
            errcode = '22023',
            message = format('the options of %s are %s', i_of, coalesce(i_options::text, 'null')),
            hint = 'pass a JSON object, {} for the defaults';
    end if;
    -- A name that is no field is the caller's to read.
    for v_option in
        select o.name, o.value from jsonb_each(i_options) as o (name, value) order by o.name
    loop
        if v_option.name <> all (i_names) then
            raise exception using
                errcode = '22023',
                message = format('%s has no option %L', i_of, v_option.name),
                hint = format('there are: %s', array_to_string(i_names, ', '));
        end if;
        begin
            v_record := jsonb_populate_record(v_record, jsonb_build_object(v_option.name, v_option.value));
        exception
            when data_exception then
                get stacked diagnostics v_message = message_text;
                raise exception using
                    errcode = '22023',
                    message = format('%s cannot have %s %s', i_of, v_option.name, v_option.value),
                    detail = v_message,
                    hint = 'pass a value of the type of the option, or null for its default';
        end;
    end loop;
    return v_record;
end;
$$;

comment on function sluice._with_options(anyelement, jsonb, text[], text) is
    'Return a record with the options of a JSON object in the fields of these names; raise an error for another name or a value of another type.';
revoke execute on function sluice._with_options(anyelement, jsonb, text[], text) from public;
grant execute on function sluice._with_options(anyelement, jsonb, text[], text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
