-- True for a database whose creation was interrupted before it was marked.
select not exists (
    select
    from pg_catalog.pg_class as c
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where n.nspname !~ '^pg_'
      and n.nspname <> 'information_schema'
);
