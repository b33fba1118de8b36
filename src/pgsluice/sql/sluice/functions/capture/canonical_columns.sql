-- A domain is returned as its base type: programs that compare values do not need its constraints.
create or replace function sluice.canonical_columns(relation regclass)
returns table (column_name text, type_name text, key_position integer, is_core boolean)
language sql
stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off -- names of types are compared as text
as $$
    with recursive stored as (
        select a.attname::text as column_name, a.attnum, a.atttypid as type_id
        from pg_attribute as a
        where a.attrelid = relation
          and a.attnum > 0
          and not a.attisdropped
          and a.attgenerated <> 'v'
    ),
    plain as (
        select s.attnum, s.type_id from stored as s
        union all
        select p.attnum, t.typbasetype
        from plain as p
        join pg_type as t on t.oid = p.type_id
        where t.typtype = 'd'
    )
    select s.column_name, format_type(p.type_id, null), array_position((i.indkey::smallint[])[0:i.indnkeyatts - 1], s.attnum),
        sluice._is_core_type(s.type_id)
    from stored as s
    join plain as p using (attnum)
    join pg_type as t on t.oid = p.type_id and t.typtype <> 'd'
    left join pg_index as i on i.indrelid = relation and i.indisprimary
    order by s.attnum;
$$;

comment on function sluice.canonical_columns(regclass) is
    'Return the stored columns of a table in order: name, type without modifier, position in the primary key (from 1), and true if the type is built in.';
revoke execute on function sluice.canonical_columns(regclass) from public;
grant execute on function sluice.canonical_columns(regclass) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
