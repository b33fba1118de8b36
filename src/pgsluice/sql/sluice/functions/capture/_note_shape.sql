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
                jsonb_build_object(
                    'attnum', l.attnum, 'name', l.name, 'type', format_type(coalesce(nullif(t.typbasetype, 0), l.type_id), null)
                )
                order by l.attnum
            )
            from unnest(live_columns, live_types) with ordinality as l (name, type_id, attnum)
            left join pg_type as t on t.oid = l.type_id
            where l.name = any (kept_columns)
        );
        v_attributes := cardinality(live_columns);
    end if;
    insert into sluice.captured_shape (table_oid, shape, columns, attribute_count, storage)
    values (table_oid, shape, coalesce(v_columns, '[]'), v_attributes, sluice._storage(table_oid));
end;
$$;

comment on function sluice._note_shape(oid, text, text[], text[], oid[]) is
    'Store the columns of a captured table under the id that its events have, unless they are stored.';
revoke execute on function sluice._note_shape(oid, text, text[], text[], oid[]) from public;
grant execute on function sluice._note_shape(oid, text, text[], text[], oid[]) to pgq_admin, sluice_admin;
