create or replace function pgq._trigger_key(source_table oid)
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Columns that are only included in the index are no part of the key.
    return array(
        select a.attname::text
        from pg_index as i
        cross join unnest(i.indkey::smallint[]) with ordinality as k (attnum, position)
        join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where i.indrelid = source_table
          and i.indisprimary
          and k.position <= i.indnkeyatts
        order by k.position
    );
end;
$$;

comment on function pgq._trigger_key(oid) is
    'The names of the primary keys columns, in the keys order.';
revoke execute on function pgq._trigger_key(oid) from public;
grant execute on function pgq._trigger_key(oid) to public;
