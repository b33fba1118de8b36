-- Schemas of pgsluice in a database without its ledger, and 'legacy': they have functions of this release, which are pinned to
-- a search path, unlike those of PGMQ and PgQ, and belong to a role that the installer trusts. Parameter: the signatures of
-- the functions of this release.
select distinct case n.nspname when 'public' then 'legacy' else n.nspname::text end
from pg_catalog.unnest(%s::text[]) as signature
join pg_catalog.pg_proc as p on p.oid = pg_catalog.to_regprocedure(signature)
join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
join pg_catalog.pg_roles as r on r.oid = p.proowner
where pg_catalog.to_regclass('sluice.migration') is null
  and 'search_path=pg_catalog, pg_temp' = any (p.proconfig)
  and (n.nspname = 'public' or p.proowner = n.nspowner)
  and (r.rolsuper or r.rolname in ('sluice_owner', current_user));
