-- For `verify`, after an installation that left queues and logs alone: those that it would change. Tables that belong to other
-- roles are listed by foreign.sql.
select o.name, o.what
from sluice._outdated(null::text[], null::integer[]) as o
where o.owner = current_user
    or pg_catalog.pg_has_role((select n.nspowner from pg_catalog.pg_namespace as n where n.nspname = 'sluice'), o.owner, 'usage')
order by o.name collate "C";
