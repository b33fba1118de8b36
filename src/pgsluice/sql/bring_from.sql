-- Before readers.sql: the name of the queue or log to start at; '' for the first queue.
select pg_catalog.set_config('sluice.bring_from', %s, true);
