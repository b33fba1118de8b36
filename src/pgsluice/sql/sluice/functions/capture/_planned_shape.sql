/*
 * Reads the catalog, and yet is declared immutable: the planner replaces a call by its result, so a plan that PL/pgSQL caches
 * holds the shape of the table as a constant. A statement that reads a transition table depends on the trigger's table: the
 * plan is made again, and this function called again, after each change of the table's columns or primary key. Reading the
 * catalog for each changed row took longer than the rest of the trigger.
 *
 * Only for such a statement of a trigger, where the table is locked against these changes. A plan has no argument that is
 * constant, so the trigger passes the table in the setting sluice.planned_table.
 */
create or replace function sluice._planned_shape()
returns text[]
language plpgsql
immutable
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

comment on function sluice._planned_shape() is
    'Return for a cached plan whether whole rows of its captured table can be written (static or dynamic), followed by the key columns.';
revoke execute on function sluice._planned_shape() from public;
grant execute on function sluice._planned_shape() to pgq_admin, sluice_admin;
