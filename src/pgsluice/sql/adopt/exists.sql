-- Schemas that can be adopted.
select n.nspname::text
from pg_catalog.pg_namespace as n
where n.nspname = 'pgmq'
   or n.nspname = 'pgq' and pg_catalog.to_regclass('pgq.event_template') is not null
order by n.nspname;
