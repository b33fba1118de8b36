-- Security definer: readers of a log need no rights on pgq.origin.
create or replace function pgq._incarnation(i_queue_id integer)
returns text
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    select o.incarnation from pgq.origin as o where o.queue_id = i_queue_id and o.part = 0;
$$;

comment on function pgq._incarnation(integer) is
    'Return the id that distinguishes a log from its copies restored from a dump.';
revoke execute on function pgq._incarnation(integer) from public;
grant execute on function pgq._incarnation(integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
