create or replace function sluice._dead_letter_filter_sql()
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select format(
        $condition$lower(m.queue_name) = lower($5)
        and ($6 is null or m.reason = $6)
        and ($7 is null or coalesce(m.error_type, '') = $7)
        and %s$condition$,
        sluice._filter_sql('dead_at')
    );
$$;

comment on function sluice._dead_letter_filter_sql() is
    'Return a condition on dead letter m: sluice._filter_sql plus queue $5, reason $6 and error type $7, empty for none; null means no condition.';
revoke execute on function sluice._dead_letter_filter_sql() from public;
grant execute on function sluice._dead_letter_filter_sql() to sluice_admin, sluice_reader;
