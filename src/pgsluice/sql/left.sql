-- Work that hand_over.sql and readers.sql left to the next transactions: the name at which readers.sql continues, '' if
-- it is complete, and true if tables of queues still belong to other roles.
select
    coalesce(pg_catalog.current_setting('sluice.bring_from', true), ''),
    coalesce(pg_catalog.current_setting('sluice.left_owned', true), '') = 'true';
