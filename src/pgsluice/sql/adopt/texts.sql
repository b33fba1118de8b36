select
    pg_catalog.set_config('sluice.functions_here', %s, true),
    pg_catalog.set_config('sluice.types_here', %s, true),
    pg_catalog.set_config('sluice.lock_deadline_s', %s, true),
    pg_catalog.set_config('sluice.adopting', %s, true),
    pg_catalog.set_config('sluice.has_legacy', %s, true);
