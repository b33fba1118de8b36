-- What exists in the schema, as the migrations name it.
select
    case c.relkind when 'c' then 'type' when 'i' then 'index' else 'table' end,
    c.relname::text
from pg_catalog.pg_class as c
where c.relnamespace = 'pgmq'::pg_catalog.regnamespace
  and c.relkind in ('r', 'p', 'c', 'i');
