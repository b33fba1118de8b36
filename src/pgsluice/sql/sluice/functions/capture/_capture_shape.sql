-- Evaluated at each statement, because columns can be added, renamed and dropped later. An option that names a missing
-- column is an error: a renamed column that was ignored must not leak into events.
create or replace function sluice._capture_shape(
    source_table oid, options jsonb,
    out schema_name text, out table_name text, out partitioned boolean,
    out key_columns text[], out columns_sql text, out key_sql text
)
returns record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_primary smallint[];
    v_names text[];
    v_kept text[];
    v_missing text;
begin
    select n.nspname, c.relname, c.relkind = 'p'
    into strict schema_name, table_name, partitioned
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    where c.oid = source_table;

    -- A deferrable key is refused: two transactions can hold the same key concurrently, so the order of their events
    -- is undefined.
    select (i.indkey::smallint[])[0:i.indnkeyatts - 1]
    into v_primary
    from pg_index as i
    where i.indrelid = source_table
      and i.indisprimary
      and i.indimmediate;

    -- Virtual columns are not stored, and a trigger does not see them. A value of a type that is not built in
    -- is written by its output function, as a string: see sluice._is_core_type.
    select array_agg(a.attname::text order by a.attnum),
        array_agg(a.attname::text order by a.attnum) filter (where v.kept),
        coalesce(string_agg(v.value_sql, ', ' order by a.attnum) filter (where v.kept), ''),
        array_agg(a.attname::text order by array_position(v_primary, a.attnum)) filter (where a.attnum = any (v_primary))
    into v_names, v_kept, columns_sql, key_columns
    from pg_attribute as a
    cross join lateral (
        select
            case
                when options ? 'columns' then options -> 'columns' ? a.attname
                else not coalesce(options -> 'ignore' ? a.attname, false)
            end as kept,
            format(
                case
                    when a.atttypid < 16384 then 'r.%1$I' -- most columns: saves a call
                    when sluice._is_core_type(a.atttypid) then 'r.%1$I'
                    else 'case when r.%1$I is distinct from null then concat(r.%1$I) end as %1$I'
                end,
                a.attname
            ) as value_sql
    ) as v
    where a.attrelid = source_table
      and a.attnum > 0
      and not a.attisdropped
      and a.attgenerated <> 'v';

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
    if not key_columns <@ coalesce(v_kept, '{}') then
        raise exception using
            errcode = 'PQ007',
            message = format('the capture of %I.%I leaves out a column of its key', schema_name, table_name),
            detail = format('The key is (%s).', array_to_string(key_columns, ', ')),
            hint = 'keep these columns, or name another key with the option key';
    end if;
end;
$$;

comment on function sluice._capture_shape(oid, jsonb) is
    'Return name, key and columns of a captured table, and the SQL that selects rows (r) for events and their key (c).';
revoke execute on function sluice._capture_shape(oid, jsonb) from public;
grant execute on function sluice._capture_shape(oid, jsonb) to pgq_admin, sluice_admin;
