-- Used in statements that are planned with their parameter values, so the planner drops null and empty conditions.
create or replace function sluice._filter_sql(time_column text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        $condition$($1 is null or $1 = '{}' or m.message @> $1)
        and ($2 is null or $2 = '{}' or m.headers @> $2)
        and ($3 is null or m.%1$I >= $3)
        and ($4 is null or m.%1$I < $4)$condition$,
        time_column
    );
$$;

comment on function sluice._filter_sql(text) is
    'Return a condition on m: message contains $1, headers contain $2, time from $3 (inclusive) to $4 (exclusive); null means no condition.';
revoke execute on function sluice._filter_sql(text) from public;
grant execute on function sluice._filter_sql(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
