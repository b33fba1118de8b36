create or replace function pgq.quote_fqname(i_name text)
returns text
language sql
immutable
strict
set search_path = pg_catalog, pg_temp
as $$
    select case strpos(i_name, '.')
        when 0 then format('public.%I', i_name)
        else format('%I.%I', left(i_name, strpos(i_name, '.') - 1), substr(i_name, strpos(i_name, '.') + 1))
    end;
$$;

comment on function pgq.quote_fqname(text) is
    'Quote a qualified name, split at the first dot; without a dot the schema is public.';
