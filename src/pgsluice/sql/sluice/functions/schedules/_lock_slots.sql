-- A transaction holds a lock on each table, index and sequence it has read until its end, and the server's lock table is
-- shared. So functions over all logs process a part of them at a time: with the default settings there are 6,400 slots.
create or replace function sluice._lock_slots()
returns integer
language sql
stable
return current_setting('max_locks_per_transaction')::integer
    * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer);

comment on function sluice._lock_slots() is
    'Return the size of the server''s lock table.';
revoke execute on function sluice._lock_slots() from public;
grant execute on function sluice._lock_slots() to pgq_admin, sluice_admin;
