-- Held by the session, in the maintenance database, so that the demo's own can be dropped under it.
select pg_try_advisory_lock(hashtextextended('pgsluice demo', 0));
