create or replace function pgq._trigger_columns(
    source_table oid, key text[], ignored text[],
    out name text, out ident text, out content text, out json text,
    out is_key boolean, out is_magic boolean, out is_hidden boolean
)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select
        a.attname, i.ident, t.content,
        case
            -- Only the types themselves are native in the JSON; what is made of them, as a domain, is a string.
            when a.atttypid in (
                'smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, 'boolean'::regtype,
                'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype
            ) then format('to_json(r.%s)', i.ident)
            else format('to_json(%s)', t.content)
        end,
        a.attname = any (key) and not m.is_magic,
        m.is_magic,
        m.is_magic or coalesce(a.attname = any (ignored), false)
    from pg_attribute as a
    cross join lateral quote_ident(a.attname) as i (ident)
    -- What the type's output function writes. A cast to text is not always that: 't' would be true, 10.0.0.1 would be
    -- 10.0.0.1/32. And "is null" would be true of a composite whose fields are.
    cross join lateral format('case num_nulls(r.%1$s) when 0 then format(''%%s'', r.%1$s) end', i.ident) as t (content)
    cross join lateral starts_with(a.attname, '_pgq_ev_') as m (is_magic)
    where a.attrelid = source_table and a.attnum > 0 and not a.attisdropped
    order by a.attnum;
$$;

comment on function pgq._trigger_columns(oid, text[], text[]) is
    'The columns of a table as jsontriga, logutriga and sqltriga see them; content and json are SQL over a row r.';
revoke execute on function pgq._trigger_columns(oid, text[], text[]) from public;
grant execute on function pgq._trigger_columns(oid, text[], text[]) to public;
