-- Lists the objects that exist in the schemas, by the names that the migrations use.
select
    case c.relkind when 'c' then 'type' when 'i' then 'index' when 'S' then 'sequence' else 'table' end,
    c.relname::text
from pg_catalog.pg_class as c
where c.relnamespace in (select n.oid from pg_catalog.pg_namespace as n where n.nspname in ('pgmq', 'pgq'))
  and c.relkind in ('r', 'p', 'c', 'i', 'S');
