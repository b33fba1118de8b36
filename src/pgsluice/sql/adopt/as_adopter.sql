-- Queue tables belong to their creators, so they are changed with the rights of the adopting role.
select pg_catalog.set_config('role', pg_catalog.current_setting('sluice.role_before'), true);
