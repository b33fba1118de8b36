-- A session-level advisory lock in the maintenance database, so that the demo's own database can be dropped meanwhile.
select pg_try_advisory_lock(hashtextextended('pgsluice demo', 0));
