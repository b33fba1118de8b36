create or replace function pgq.version()
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select '3.5.2 (pgsluice)';
$$;

comment on function pgq.version() is
    'The version of PgQ whose functions these are, and who made them. pgqd leaves alone what does not begin with 3.';
