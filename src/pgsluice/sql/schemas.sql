-- Our schemas that exist.
select n.nspname::text
from pg_catalog.pg_namespace as n
where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
order by n.nspname;
