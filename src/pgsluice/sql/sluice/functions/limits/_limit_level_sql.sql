-- Every message has a level whatever its header contains, so that none is left unread.
create or replace function sluice._limit_level_sql(alias text, levels integer)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        'case %I.headers ->> ''x-pgmq-priority'' %s else %s end',
        alias, string_agg(format('when %L then %s', level, level), ' ' order by level), (levels + 1) / 2
    )
    from generate_series(1, levels) as level;
$$;

comment on function sluice._limit_level_sql(text, integer) is
    'Return the expression of a message''s priority, 1 to levels, as in the indexes: from its header, else the middle one.';
revoke execute on function sluice._limit_level_sql(text, integer) from public;
grant execute on function sluice._limit_level_sql(text, integer) to sluice_admin, sluice_reader;
