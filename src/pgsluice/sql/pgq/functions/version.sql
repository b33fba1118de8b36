create or replace function pgq.version()
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select '3.5.2 (pgsluice)';
$$;

comment on function pgq.version() is
    'Return the PgQ version of these functions, with the name of this project. pgqd requires that it starts with 3.';
