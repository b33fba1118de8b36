-- The one comparison of attempts and deliveries with their limits.
create or replace function sluice._is_last(i_attempts integer, i_max_attempts integer, i_deliveries integer, i_max_deliveries integer)
returns boolean
language sql
immutable
set search_path = pg_catalog, pg_temp
return i_attempts >= i_max_attempts or coalesce(i_deliveries >= i_max_deliveries, false);

comment on function sluice._is_last(integer, integer, integer, integer) is
    'True if no attempt or delivery may follow this number of them; null deliveries are not limited.';
revoke execute on function sluice._is_last(integer, integer, integer, integer) from public;
grant execute on function sluice._is_last(integer, integer, integer, integer) to pgq_admin, sluice_admin, sluice_reader;
