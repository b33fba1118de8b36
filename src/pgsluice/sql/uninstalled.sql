-- The schemas that uninstall.sql drops, where they exist.
select pg_catalog.set_config('sluice.uninstalled', %s, true);
