-- Migrations of schemas that do not exist any more run again.
delete from sluice.migration as m where pg_catalog.split_part(m.version, '/', 1) = any (%s::text[]);
