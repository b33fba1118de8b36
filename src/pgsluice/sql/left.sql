-- How many objects the last hand_over.sql and readers.sql of this transaction left to the next ones.
select coalesce(pg_catalog.sum(nullif(pg_catalog.current_setting(s.name, true), '')::integer), 0)::integer
from (values ('sluice.left_outdated'), ('sluice.left_owned')) as s (name);
