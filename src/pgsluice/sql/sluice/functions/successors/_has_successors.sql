-- Reads: the catalog.
create or replace function sluice._has_successors(queue_table text)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select count(*) = 2
    from pg_trigger as t
    where t.tgrelid = to_regclass(format('pgmq.%I', queue_table))
      and t.tgname in ('finish_predecessors', 'finish_all_predecessors')
      and t.tgfoid = to_regprocedure('sluice._finish_predecessors()')
      and t.tgenabled in ('O', 'A');
$$;

comment on function sluice._has_successors(text) is
    'True if messages can wait for messages of this queue table.';
revoke execute on function sluice._has_successors(text) from public;
grant execute on function sluice._has_successors(text) to sluice_admin;
