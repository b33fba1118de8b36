-- Stores the session's settings, which end.sql restores, and lists the tables to lock.
select
    pg_catalog.set_config('sluice.client_min_messages_before', pg_catalog.current_setting('client_min_messages'), true),
    pg_catalog.set_config('client_min_messages', 'warning', true);

create temporary table adopted_table (name text) on commit drop;
