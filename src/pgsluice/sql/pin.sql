-- First of every act of the installer: the caller's path, and instead of it one in which nobody can plant anything. Also no
-- adoption, unless one is asked for: a setting of the database or of the role must not permit one.
select
    pg_catalog.current_setting('search_path'),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('sluice.adopting', '', true);
