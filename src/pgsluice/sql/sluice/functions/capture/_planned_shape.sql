/*
 * Reads the catalog, and yet is declared immutable: the planner replaces a call by its result, so a plan that PL/pgSQL caches
 * holds the names of table, key and log as constants. A statement that reads a transition table depends on the trigger's
 * table: the plan is made again, and this function called again, after each change of the table's columns, primary key or
 * triggers. Reading the catalog for each changed row took longer than the rest of the trigger.
 *
 * Only for such a statement of a trigger, where the table is locked against these changes. No argument is constant in a
 * cached plan, so the trigger passes its table and name in the setting sluice.planned_trigger. The statement has no
 * parameter either: with one it would be planned at each of the first five calls of a session.
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
    'Return for a cached plan of a trigger the JSON source up to txId, the table, the log and the shape, and a note if the shape is not stored; null if only dynamic statements can append its events.';
revoke execute on function sluice._planned_shape() from public;
grant execute on function sluice._planned_shape() to pgq_admin, sluice_admin;
