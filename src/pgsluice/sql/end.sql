-- Last of every installation and upgrade: give the caller's transaction back as it was.
select pg_catalog.set_config('role', pg_catalog.current_setting('sluice.role_before'), true);
select pg_catalog.set_config(
    'check_function_bodies', pg_catalog.current_setting('sluice.check_function_bodies_before'), true
);
select pg_catalog.set_config('search_path', pg_catalog.current_setting('sluice.search_path_before'), true);
