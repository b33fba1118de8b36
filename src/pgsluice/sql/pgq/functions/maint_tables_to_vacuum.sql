-- Events, ticks and moves are appended and truncated. The other tables change when logs and consumers are created or
-- dropped.
create or replace function pgq.maint_tables_to_vacuum()
returns setof text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select t.name
    from unnest(array['pgq.queue', 'pgq.consumer', 'pgq.subscriber', 'pgq.position_0', 'pgq.position_1'])
        with ordinality as t (name, position)
    where not current_setting('autovacuum')::boolean
    order by t.position;
$$;

comment on function pgq.maint_tables_to_vacuum() is
    'List the tables to vacuum; none where autovacuum is on.';
revoke execute on function pgq.maint_tables_to_vacuum() from public;
grant execute on function pgq.maint_tables_to_vacuum() to pgq_admin, sluice_admin;
