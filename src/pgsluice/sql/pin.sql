-- Runs first in every command of the installer: saves the caller's settings, and sets a search path in which other roles
-- cannot create objects, and the settings that decide how literals are read and names are written: texts of the catalog
-- are compared. Also disables adoption unless the command requests it, whatever the settings of the database and role.
select
    pg_catalog.jsonb_object_agg(p.name, pg_catalog.current_setting(p.name))::text,
    pg_catalog.jsonb_object_agg(p.name, pg_catalog.set_config(p.name, p.pinned, true))::text,
    pg_catalog.set_config('sluice.adopting', '', true)
from (
    values ('search_path', 'pg_catalog, pg_temp'), ('standard_conforming_strings', 'on'), ('quote_all_identifiers', 'off'),
        ('datestyle', 'ISO'), ('intervalstyle', 'postgres')
) as p (name, pinned);
