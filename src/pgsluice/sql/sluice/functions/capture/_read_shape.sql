-- For sluice._planned_shape. Volatile, so that it reads the catalog in a new snapshot.
create or replace function sluice._read_shape()
returns text[]
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table constant oid := current_setting('sluice.planned_table');
    v_is_static boolean;
    v_key_columns text[];
begin
    -- Virtual columns are not seen by a trigger, and types that are not built in may run code: see sluice._capture_shape.
    select bool_and(a.atttypid < 16384 and a.attgenerated <> 'v'),
        array_agg(a.attname::text order by array_position(p.attnums, a.attnum)) filter (where a.attnum = any (p.attnums))
    into v_is_static, v_key_columns
    from pg_attribute as a
    left join (
        select (i.indkey::smallint[])[0:i.indnkeyatts - 1] as attnums
        from pg_index as i
        where i.indrelid = v_table and i.indisprimary and i.indimmediate
    ) as p on true
    where a.attrelid = v_table and a.attnum > 0 and not a.attisdropped;
    return array[case when v_is_static then 'static' else 'dynamic' end] || v_key_columns;
end;
$$;

comment on function sluice._read_shape() is
    'Read for sluice._planned_shape whether whole rows of its table can be written (static or dynamic), followed by the key columns.';
revoke execute on function sluice._read_shape() from public;
grant execute on function sluice._read_shape() to pgq_admin, sluice_admin;
