-- All that runs once a row is PL/pgSQL: it keeps its plans; SQL functions that are not inlined do not.
create or replace function pgq._trigger_columns(
    source_table oid, key text[], ignored text[],
    out names text[], out types oid[], out in_key boolean[], out magic boolean[], out hidden boolean[]
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    select
        coalesce(array_agg(c.attname::text order by c.attnum), '{}'),
        array_agg(c.atttypid order by c.attnum),
        array_agg(c.attname = any (key) and not c.is_magic order by c.attnum),
        array_agg(c.is_magic order by c.attnum),
        array_agg(c.is_magic or coalesce(c.attname = any (ignored), false) order by c.attnum)
    into names, types, in_key, magic, hidden
    from (
        select a.attname, a.atttypid, a.attnum, starts_with(a.attname, '_pgq_ev_') as is_magic
        from pg_attribute as a
        where a.attrelid = source_table and a.attnum > 0 and not a.attisdropped
    ) as c;
end;
$$;

comment on function pgq._trigger_columns(oid, text[], text[]) is
    'The columns of a table in their order: name, type, whether it is part of the key, a field of the event, left out of the data.';
revoke execute on function pgq._trigger_columns(oid, text[], text[]) from public;
grant execute on function pgq._trigger_columns(oid, text[], text[]) to public;
