-- Keys are passed as objects of text values, so that no client can round a number.
create or replace function sluice._capture_walk(
    source_table oid, key_columns text[], after_key jsonb,
    out key_sql text, out key_json_sql text, out after_sql text, out from_sql text, out equal_sql text
)
returns record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    v_values_sql text;
    v_walkable boolean;
begin
    -- Operators of other types can be in any schema, and their order can differ from that of the index.
    select bool_and(sluice._is_core_type(a.atttypid) or t.typtype = 'e'),
        string_agg(format('r.%I', k.name), ', ' order by k.position),
        format(
            'jsonb_build_object(%s)', string_agg(format('%L, concat(r.%I)', k.name, k.name), ', ' order by k.position)
        ),
        string_agg(
            format('($1 ->> %L)::%s', k.name, format_type(a.atttypid, a.atttypmod)), ', ' order by k.position
        )
    into v_walkable, key_sql, key_json_sql, v_values_sql
    from unnest(key_columns) with ordinality as k (name, position)
    join pg_attribute as a on a.attrelid = source_table and a.attname = k.name
    join pg_type as t on t.oid = a.atttypid;
    if not coalesce(v_walkable, false) then
        key_sql := null;
        if after_key is not null then
            raise exception using
                errcode = '22023',
                message = format('%s has no key to go on from', source_table::regclass),
                hint = 'leave after_key out: the table is taken whole';
        end if;
        return;
    end if;
    if after_key is not null and (
        jsonb_typeof(after_key) <> 'object'
        or array(select o.key from jsonb_each(after_key) as o where o.value <> 'null' order by o.key)
            <> array(select k.name from unnest(key_columns) as k (name) order by k.name collate "C")
    )
    then
        raise exception using
            errcode = '22023',
            message = format('after_key is %s', after_key),
            hint = format('give the key (%s) that the last call returned', array_to_string(key_columns, ', '));
    end if;
    after_sql := format('(%s) > (%s)', key_sql, v_values_sql);
    from_sql := format('(%s) >= (%s)', key_sql, v_values_sql);
    equal_sql := format('(%s) = (%s)', key_sql, v_values_sql);
end;
$$;

comment on function sluice._capture_walk(oid, text[], jsonb) is
    'How the rows r of a captured table are walked in the order of their key, with a key as $1; nulls: they are not.';
revoke execute on function sluice._capture_walk(oid, text[], jsonb) from public;
grant execute on function sluice._capture_walk(oid, text[], jsonb) to pgq_admin, sluice_admin;
