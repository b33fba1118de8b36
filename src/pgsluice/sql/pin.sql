-- Runs first in every command of the installer: notes the caller's search path, and sets one in which other roles cannot create objects.
-- Also turns adoption off unless it is asked for: a setting of the database or of the role must not permit it.
select
    pg_catalog.current_setting('search_path'),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('sluice.adopting', '', true);
