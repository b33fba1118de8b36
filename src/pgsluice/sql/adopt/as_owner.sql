select pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(n.nspowner)::text, true)
from pg_catalog.pg_namespace as n
where n.nspname = 'sluice';
