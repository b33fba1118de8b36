create or replace function sluice._message_columns_sql(columns text[], hides_vt boolean default false)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    -- As text, JSON arrives unchanged, and no client needs to know the type.
    select string_agg(
        case
            when k.name = 'vt' and hides_vt then 'null::timestamptz as vt'
            when k.name in ('message', 'headers') then format('m.%I::text as %1$I', k.name)
            else format('m.%I', k.name)
        end,
        ', ' order by k.position
    )
    from unnest(columns) with ordinality as k (name, position);
$$;

comment on function sluice._message_columns_sql(text[], boolean) is
    'Return the select list of message columns, in types that clients know; the table alias is m.';
revoke execute on function sluice._message_columns_sql(text[], boolean) from public;
grant execute on function sluice._message_columns_sql(text[], boolean) to sluice_admin, sluice_reader;
