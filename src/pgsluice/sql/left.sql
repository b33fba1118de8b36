-- What the last hand_over.sql and readers.sql of this transaction left to the next ones: where readers.sql continues, '' if it is done, and
-- whether tables of queues still belong to other roles.
select
    coalesce(pg_catalog.current_setting('sluice.bring_from', true), ''),
    coalesce(pg_catalog.current_setting('sluice.left_owned', true), '') = 'true';
