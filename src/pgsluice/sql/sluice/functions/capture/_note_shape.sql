-- Security definer: the caller of a snapshot may not write to the table of shapes.
create or replace function sluice._note_shape(
    table_oid oid, shape text, kept_columns text[], live_columns text[], live_types oid[]
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off -- names of types are compared as text
as $$
declare
    v_columns jsonb;
    v_attributes integer;
    v_rows_of oid;
begin
    if exists (
        select
        from sluice.captured_shape as s
        where s.table_oid = _note_shape.table_oid
          and s.shape = _note_shape.shape
    )
    then
        return;
    end if;
    if live_columns is null then
        v_columns := sluice._table_columns(table_oid, kept_columns);
        v_attributes := (select c.relnatts from pg_class as c where c.oid = table_oid);
    else
        v_columns := (
            select jsonb_agg(
                jsonb_build_object('attnum', l.attnum, 'name', l.name, 'type', format_type(l.type_id, null)) order by l.attnum
            )
            from unnest(live_columns, live_types) with ordinality as l (name, type_id, attnum)
            where l.name = any (kept_columns)
        );
        v_attributes := cardinality(live_columns);
    end if;
    v_rows_of := coalesce(
        (select min(p.relid::oid) from pg_partition_tree(table_oid) as p where p.isleaf), table_oid
    );
    insert into sluice.captured_shape (table_oid, shape, columns, attribute_count, storage)
    values (
        table_oid, shape, coalesce(v_columns, '[]'), v_attributes, format('%s %s', v_rows_of, pg_relation_filenode(v_rows_of))
    );
end;
$$;

comment on function sluice._note_shape(oid, text, text[], text[], oid[]) is
    'Store the columns of a captured table under the id that its events have, unless they are stored.';
revoke execute on function sluice._note_shape(oid, text, text[], text[], oid[]) from public;
grant execute on function sluice._note_shape(oid, text, text[], text[], oid[]) to pgq_admin, sluice_admin;
