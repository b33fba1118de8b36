-- Evaluated at each statement, because columns can be added, renamed and dropped later. An option that names a missing
-- column is an error: a renamed column that was ignored must not leak into events.
--
-- In a transaction that keeps one snapshot, the catalog can hide a change of the table that its rows already have. The
-- trigger then passes names and types by attnum, read without the snapshot; all else about a column is unknown.
create or replace function sluice._capture_shape(
    source_table oid, options jsonb, live_columns text[], live_types oid[],
    out schema_name text, out table_name text, out partitioned boolean,
    out key_columns text[], out columns_sql text, out key_sql text,
    out kept_columns text[], out shape text, out is_noted boolean
)
returns record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_attributes integer;
    v_names text[];
    v_fingerprint text;
    v_missing text;
begin
    -- A deferrable key is refused: two transactions can hold the same key concurrently, so the order of their events
    -- is undefined.
    if live_columns is null then
        select n.nspname, c.relname, c.relkind = 'p', c.relnatts, (
            select array_agg(a.attname::text order by k.position)
            from pg_index as i
            cross join unnest((i.indkey::smallint[])[0:i.indnkeyatts - 1]) with ordinality as k (attnum, position)
            join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
            where i.indrelid = c.oid
              and i.indisprimary
              and i.indimmediate
        )
        into strict schema_name, table_name, partitioned, v_attributes, key_columns
        from pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
        where c.oid = source_table;
    else
        select p.names[1], p.names[2]
        into strict schema_name, table_name
        from pg_identify_object('pg_class'::regclass, source_table, 0) as o
        cross join parse_ident(o.identity) as p (names);
        partitioned := (select not t.isleaf from pg_partition_tree(source_table) as t where t.relid = source_table);
        v_attributes := cardinality(live_columns);
        key_columns := sluice._live_key(source_table);
    end if;

    -- Virtual columns are not stored, and a trigger does not see them. A value of a type that is not built in is written by
    -- its output function, as a string: see sluice._is_core_type.
    select array_agg(v.name order by v.attnum),
        array_agg(v.name order by v.attnum) filter (where v.kept),
        coalesce(string_agg(v.value_sql, ', ' order by v.attnum) filter (where v.kept), ''),
        string_agg(v.fingerprint, ',' order by v.attnum) filter (where v.kept)
    into v_names, kept_columns, columns_sql, v_fingerprint
    from (
        select c.attnum, c.name, c.fingerprint,
            case
                when options ? 'columns' then options -> 'columns' ? c.name
                else not coalesce(options -> 'ignore' ? c.name, false)
            end as kept,
            format(
                case
                    when c.type_id < 16384 then 'r.%1$I' -- most columns: saves a call
                    when sluice._is_core_type(c.type_id) then 'r.%1$I'
                    else 'case when r.%1$I is distinct from null then concat(r.%1$I) end as %1$I'
                end,
                c.name
            ) as value_sql
        from (
            select a.attnum, a.attname::text as name, a.atttypid as type_id,
                concat_ws(
                    ' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.xmin,
                    case when a.atttypid >= 16384 then sluice._type_definition(a.atttypid) end
                ) as fingerprint
            from pg_attribute as a
            where live_columns is null
              and a.attrelid = source_table
              and a.attnum > 0
              and not a.attisdropped
              and a.attgenerated <> 'v'
            union all
            select l.attnum, l.name, l.type_id, concat_ws(' ', 'live', l.attnum, l.name, l.type_id)
            from unnest(live_columns, live_types) with ordinality as l (name, type_id, attnum)
            where l.name is not null
              and not exists (
                  select
                  from pg_attribute as a
                  where a.attrelid = source_table
                    and a.attnum = l.attnum
                    and a.attgenerated = 'v'
              )
        ) as c
    ) as v;
    shape := to_hex(hashtextextended(concat_ws(' ', source_table, v_attributes, v_fingerprint), 0));
    -- A row of this transaction may be rolled back while a session keeps the plan that was made for it.
    is_noted := exists (
        select
        from sluice.captured_shape as s
        where s.table_oid = source_table
          and s.shape = _capture_shape.shape
          and s.noted_by is distinct from pg_current_xact_id_if_assigned()
    );

    if options ? 'key' then
        key_columns := array(select jsonb_array_elements_text(options -> 'key'));
    end if;
    key_sql := (
        select string_agg(format('c.%I', k.name), ', ' order by k.position)
        from unnest(key_columns) with ordinality as k (name, position)
    );

    if not options ?| '{columns,ignore,key}' then
        return;
    end if;
    select n.name
    into v_missing
    from jsonb_array_elements_text(
        coalesce(options -> 'columns', '[]') || coalesce(options -> 'ignore', '[]') || coalesce(options -> 'key', '[]')
    ) as n (name)
    where n.name <> all (coalesce(v_names, '{}'))
    limit 1;
    if v_missing is not null then
        raise exception using
            errcode = 'PQ007',
            message = format('captured table %I.%I has no column %I', schema_name, table_name, v_missing),
            detail = 'An option of the capture names it. It may have been renamed or dropped, or is virtual.',
            hint = 'call sluice.capture again, with the columns that the table has';
    end if;
    if not key_columns <@ coalesce(kept_columns, '{}') then
        raise exception using
            errcode = 'PQ007',
            message = format('the capture of %I.%I leaves out a column of its key', schema_name, table_name),
            detail = format('The key is (%s).', array_to_string(key_columns, ', ')),
            hint = 'keep these columns, or name another key with the option key';
    end if;
end;
$$;

comment on function sluice._capture_shape(oid, jsonb, text[], oid[]) is
    'Return name, key and columns of a captured table, the SQL that selects rows (r) for events and their key (c), and the id of its row in sluice.captured_shape.';
revoke execute on function sluice._capture_shape(oid, jsonb, text[], oid[]) from public;
grant execute on function sluice._capture_shape(oid, jsonb, text[], oid[]) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
