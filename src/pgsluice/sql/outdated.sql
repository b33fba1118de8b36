-- For `verify`: queues and logs that an upgrade would still change. Tables owned by other roles are listed by foreign.sql.
select o.name, o.what
from sluice._outdated(null::text[], null::integer[]) as o
where o.owner = current_user
    or pg_catalog.pg_has_role((select n.nspowner from pg_catalog.pg_namespace as n where n.nspname = 'sluice'), o.owner, 'usage')
order by o.name collate "C";
