select pg_catalog.to_regclass('sluice.migration') is not null;
