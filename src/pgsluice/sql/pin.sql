-- Runs first in every command of the installer: saves the caller's search path, and sets one in which other roles cannot
-- create objects. Also disables adoption unless the command requests it, whatever the settings of the database and role.
select
    pg_catalog.current_setting('search_path'),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('sluice.adopting', '', true);
