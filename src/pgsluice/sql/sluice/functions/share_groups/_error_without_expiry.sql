-- An expired lease is recorded as a prefix of the event's error, which sluice.unfinished_attempts reads.
create or replace function sluice._error_without_expiry(i_error text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select nullif(regexp_replace(i_error, '^its lease ended(; before that: )?', ''), '');
$$;

comment on function sluice._error_without_expiry(text) is
    'Return the error from before a lease expired; null if there was none.';
revoke execute on function sluice._error_without_expiry(text) from public;
grant execute on function sluice._error_without_expiry(text) to pgq_admin, sluice_admin;
