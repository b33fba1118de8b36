create or replace function sluice._require_capture_options(options jsonb)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_operations constant jsonb := '["insert", "update", "delete", "truncate"]';
    v_name text;
    v_value jsonb;
    v_wanted text;
    v_good boolean;
begin
    if jsonb_typeof(options) <> 'object' then
        raise exception using
            errcode = '22023',
            message = format('options of a capture are %s, and no object', options),
            hint = 'use {} for none';
    end if;
    for v_name, v_value in
        select o.key, o.value from jsonb_each(options) as o
    loop
        v_wanted := case
            when v_name in ('columns', 'ignore', 'key') then 'a list of columns'
            when v_name = 'operations' then 'a list of insert, update, delete and truncate'
            when v_name in ('before', 'replicated') then 'true or false'
            when v_name = 'dropped_partitions' then '"keep" or "delete"'
            when v_name = 'row_bytes_max' then 'a number of bytes up to 67108864'
        end;
        if v_wanted is null then
            raise exception using
                errcode = '22023',
                message = format('a capture has no option %L', v_name),
                hint = 'use columns, ignore, key, before, operations, row_bytes_max, dropped_partitions or replicated';
        end if;
        v_good := case
            when v_name in ('before', 'replicated') then jsonb_typeof(v_value) = 'boolean'
            when v_name = 'dropped_partitions' then v_value in ('"keep"', '"delete"')
            when v_name = 'row_bytes_max' then v_value::text ~ '^[1-9][0-9]{0,7}$' and v_value <= '67108864'
            when jsonb_typeof(v_value) <> 'array' or v_value = '[]' then false
            when v_name = 'operations' then v_value <@ v_operations
            else not exists (select from jsonb_array_elements(v_value) as e where jsonb_typeof(e.value) <> 'string')
        end;
        if not v_good then
            raise exception using
                errcode = '22023',
                message = format('option %s of a capture is %s', v_name, v_value),
                hint = format('give it %s', v_wanted);
        end if;
    end loop;
    if options ? 'columns' and options ? 'ignore' then
        raise exception using
            errcode = '22023',
            message = 'a capture has both options columns and ignore',
            hint = 'say either what is kept or what is left out';
    end if;
end;
$$;

comment on function sluice._require_capture_options(jsonb) is
    'Raise an error if an option of a capture is unknown or has a value of the wrong type.';
revoke execute on function sluice._require_capture_options(jsonb) from public;
grant execute on function sluice._require_capture_options(jsonb) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
