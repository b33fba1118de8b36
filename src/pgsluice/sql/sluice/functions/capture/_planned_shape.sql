/*
 * Reads the catalog, and yet is declared immutable: the planner replaces a call by its result, so a plan that PL/pgSQL caches
 * holds the shape of the table as a constant. A statement that reads a transition table depends on the trigger's table: the
 * plan is made again, and this function called again, after each change of the table's columns or primary key. Reading the
 * catalog for each changed row took longer than the rest of the trigger.
 *
 * Only for such a statement of a trigger, where the table is locked against these changes. A plan has no argument that is
 * constant, so the trigger passes the table in the setting sluice.planned_table.
 *
 * It reads in sluice._read_shape, which is volatile: an immutable function reads in the snapshot of the statement that
 * fired the trigger. A COPY takes its snapshot before it waits for the table's lock, and would not see what changed meanwhile.
 */
create or replace function sluice._planned_shape()
returns text[]
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return sluice._read_shape();
end;
$$;

comment on function sluice._planned_shape() is
    'Return for a cached plan whether whole rows of its captured table can be written (static or dynamic), followed by the key columns.';
revoke execute on function sluice._planned_shape() from public;
grant execute on function sluice._planned_shape() to pgq_admin, sluice_admin;
