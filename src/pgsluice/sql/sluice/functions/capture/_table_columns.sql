-- For a domain, the type is its base type. Names of types are the same in every session.
create or replace function sluice._table_columns(relation oid, wanted text[])
returns jsonb
language sql
stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
    select coalesce(
        jsonb_agg(
            jsonb_build_object(
                'attnum', a.attnum,
                'name', a.attname,
                'type', format_type(
                    coalesce(nullif(t.typbasetype, 0), a.atttypid), case when t.typtype = 'd' then t.typtypmod else a.atttypmod end
                ),
                'modifier', case when t.typtype = 'd' then t.typtypmod else a.atttypmod end,
                'generated', coalesce(
                    (
                        select pg_get_expr(d.adbin, d.adrelid)
                        from pg_attrdef as d
                        where d.adrelid = a.attrelid and d.adnum = a.attnum and a.attgenerated = 's'
                    ),
                    ''
                ),
                'missing', a.atthasmissing,
                'definition', coalesce(sluice._type_definition(a.atttypid), ''),
                'version', a.xmin::text
            )
            order by a.attnum
        ),
        '[]'
    )
    from pg_attribute as a
    join pg_type as t on t.oid = a.atttypid
    where a.attrelid = relation
      and a.attnum > 0
      and not a.attisdropped
      and a.attname = any (wanted);
$$;

comment on function sluice._table_columns(oid, text[]) is
    'Return columns of a table in order, each with what tells a later reader that it is another one or has other values.';
revoke execute on function sluice._table_columns(oid, text[]) from public;
grant execute on function sluice._table_columns(oid, text[]) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
