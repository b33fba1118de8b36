-- The lock of begin.sql, before anything is looked at.
select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('pgsluice.install', 0));
