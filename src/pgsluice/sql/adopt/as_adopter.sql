-- The tables of the queues belong to who made them, so what changes them works with the rights of who adopts.
select pg_catalog.set_config('role', pg_catalog.current_setting('sluice.role_before'), true);
