-- A copy finds a row by its key, so the key must always be unique: it needs a unique index without predicate,
-- expressions, nullable columns or deferral. PostgreSQL requires the same of a replica identity.
create or replace function sluice._require_capture_key(source_table regclass, options jsonb, key_columns text[])
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if options ? 'key' and not exists (
        select
        from pg_index as i
        where i.indrelid = source_table
          and i.indisunique
          and i.indimmediate
          and i.indisvalid
          and i.indpred is null
          and i.indexprs is null
          and (
              select array_agg(a.attname::text order by a.attname::text) filter (where a.attnotnull)
              from pg_attribute as a
              where a.attrelid = i.indrelid
                and a.attnum = any ((i.indkey::smallint[])[0:i.indnkeyatts - 1])
          ) = array(select n.name from unnest(key_columns) as n (name) order by n.name)
    )
    then
        raise exception using
            errcode = '22023',
            message = format('(%s) is no key of %s', array_to_string(key_columns, ', '), source_table),
            detail = 'A key has a unique index that is neither partial nor deferrable, and no nulls.',
            hint = 'name the columns of such an index, or leave the option out for the primary key';
    end if;
    if key_columns is null and options -> 'before' = 'false' then
        raise exception using
            errcode = '22023',
            message = format('%s has no key, and without before its deletes would not identify the row', source_table),
            hint = 'leave the option before out, or give the table a primary key that is not deferrable';
    end if;
end;
$$;

comment on function sluice._require_capture_key(regclass, jsonb, text[]) is
    'Raise an error if the key of a capture does not identify rows uniquely.';
revoke execute on function sluice._require_capture_key(regclass, jsonb, text[]) from public;
grant execute on function sluice._require_capture_key(regclass, jsonb, text[]) to pgq_admin, sluice_admin;
