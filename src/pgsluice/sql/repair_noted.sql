select pg_catalog.set_config('sluice.repaired', %s, true);
