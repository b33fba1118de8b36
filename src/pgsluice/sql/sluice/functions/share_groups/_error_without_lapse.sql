-- An event whose lease ended carries that in front of its error, so that whoever gets it next can know: sluice.lapsed_events.
create or replace function sluice._error_without_lapse(i_error text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select nullif(regexp_replace(i_error, '^its lease ended(; before that: )?', ''), '');
$$;

comment on function sluice._error_without_lapse(text) is
    'What failed before a lease ended; null when nothing did.';
revoke execute on function sluice._error_without_lapse(text) from public;
grant execute on function sluice._error_without_lapse(text) to pgq_admin, sluice_admin;
