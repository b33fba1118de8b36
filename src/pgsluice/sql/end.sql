-- Last in every installation and upgrade: restore the settings of the caller's transaction.
select pg_catalog.set_config('client_min_messages', pg_catalog.current_setting('sluice.messages_before'), true);
select pg_catalog.set_config('role', pg_catalog.current_setting('sluice.role_before'), true);
select pg_catalog.set_config(
    'check_function_bodies', pg_catalog.current_setting('sluice.check_function_bodies_before'), true
);
select pg_catalog.set_config('search_path', pg_catalog.current_setting('sluice.search_path_before'), true);
