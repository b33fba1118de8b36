-- A transaction holds a lock on each table, index and sequence that it has read, up to its end, and the server's table of locks is shared
-- by all. So whatever goes over all logs takes a part of them at a time: with the default settings there are 6,400 slots.
create or replace function sluice._lock_slots()
returns integer
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select current_setting('max_locks_per_transaction')::integer
        * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer);
$$;

comment on function sluice._lock_slots() is
    'The size of the server''s table of locks.';
revoke execute on function sluice._lock_slots() from public;
grant execute on function sluice._lock_slots() to pgq_admin, sluice_admin;
