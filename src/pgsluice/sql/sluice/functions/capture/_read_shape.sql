-- For sluice._planned_shape. Volatile, so that it reads the catalog in a new snapshot.
create or replace function sluice._read_shape()
returns text[]
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_planned constant text := current_setting('sluice.planned_trigger');
    v_table constant oid := split_part(v_planned, ' ', 1);
    v_arguments bytea;
    v_log_name_bytes integer;
    v_others bytea;
    v_options jsonb;
    v_is_static boolean;
    v_shape record;
begin
    -- Each argument ends with a zero byte. The second holds the options, and the third the root of a partition.
    select t.tgargs, position(E'\\x00'::bytea in t.tgargs) - 1
    into strict v_arguments, v_log_name_bytes
    from pg_trigger as t
    where t.tgrelid = v_table and t.tgname = substring(v_planned from position(' ' in v_planned) + 1);
    v_others := substring(v_arguments from v_log_name_bytes + 2);
    v_options := case
        when v_others = '' then '{}'
        when position(E'\\x00'::bytea in v_others) = octet_length(v_others)
            then sluice._capture_options(convert_from(rtrim(v_others, E'\\x00'::bytea), getdatabaseencoding()))
    end;
    if v_options - '{replicated,dropped_partitions}'::text[] is distinct from '{}' or pg_partition_root(v_table) is not null then
        return null;
    end if;
    -- Virtual columns are not seen by a trigger, and types that are not built in may run code: see sluice._capture_shape.
    select bool_and(a.atttypid < 16384 and a.attgenerated <> 'v')
    into v_is_static
    from pg_attribute as a
    where a.attrelid = v_table and a.attnum > 0 and not a.attisdropped;
    if v_is_static is not true then
        return null;
    end if;
    v_shape := sluice._capture_shape(v_table, '{}'::jsonb, null::text[], null::oid[]);
    return array[
        format(
            '{"schema" : %s, "table" : %s, "key" : %s, "txId" : ',
            to_json(v_shape.schema_name), to_json(v_shape.table_name), coalesce(to_json(v_shape.key_columns)::text, 'null')
        ),
        format('%I.%I', v_shape.schema_name, v_shape.table_name),
        convert_from(substring(v_arguments for v_log_name_bytes), getdatabaseencoding()),
        v_shape.shape,
        case when not v_shape.is_noted then 'note it' end
    ];
end;
$$;

comment on function sluice._read_shape() is
    'Read for sluice._planned_shape the source, table, log and shape of a trigger, and a note if the shape is not stored; null if only dynamic statements can append its events.';
revoke execute on function sluice._read_shape() from public;
grant execute on function sluice._read_shape() to pgq_admin, sluice_admin;
