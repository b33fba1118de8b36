-- The names of schemas that begin.sql accepts without a ledger: those of remains.sql.
select pg_catalog.set_config('sluice.adopting', %s, true);
