-- Tables with triggers of PgQ have shapes too, which their events do not name.
create or replace function sluice.list_shapes(log_name text)
returns table (
    schema_name text, table_name text, table_oid oid, shape text, columns jsonb, attribute_count integer, storage text
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table record;
begin
    for v_table in
        select c.oid, c.relnatts, n.nspname, c.relname, t.options
        from (
            select t.tgrelid as oid, '{}'::jsonb as options
            from pg_trigger as t
            where t.tgfoid in ('pgq.jsontriga()'::regprocedure, 'pgq.logutriga()'::regprocedure)
              and substring(t.tgargs from 1 for position(E'\\x00'::bytea in t.tgargs) - 1)
                  = convert_to(list_shapes.log_name, getdatabaseencoding())
            union
            select k.source_table, k.options
            from sluice._captures() as k
            where k.log_name = list_shapes.log_name
              and k.options is not null
        ) as t
        join pg_class as c on c.oid = t.oid
        join pg_namespace as n on n.oid = c.relnamespace
    loop
        begin
            return query
            select v_table.nspname::text, v_table.relname::text, v_table.oid, s.shape,
                sluice._table_columns(v_table.oid, s.kept_columns), v_table.relnatts::integer, sluice._storage(v_table.oid)
            from sluice._capture_shape(v_table.oid, v_table.options, null::text[], null::oid[]) as s;
        exception
            -- An option of the capture names a column that the table no longer has.
            when sqlstate 'PQ007' then
                null;
        end;
    end loop;
end;
$$;

comment on function sluice.list_shapes(text) is
    'Return the current columns of the tables that are captured into an event log, as sluice.captured_shape has those of their events. Without tables whose writes fail because an option of the capture names a missing column.';
revoke execute on function sluice.list_shapes(text) from public;
grant execute on function sluice.list_shapes(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
