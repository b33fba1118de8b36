-- Before readers.sql: where it begins, '' at the first queue.
select pg_catalog.set_config('sluice.bring_from', %s, true);
