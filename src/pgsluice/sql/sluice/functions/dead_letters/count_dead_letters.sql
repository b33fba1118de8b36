create or replace function sluice.count_dead_letters(
    queue_name text,
    conditional jsonb default '{}',
    conditional_headers jsonb default '{}',
    since timestamptz default null,
    until timestamptz default null,
    reason text default null,
    error_type text default null
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count bigint;
begin
    execute format(
        'select count(*) from sluice.dead_letter as m where %s', sluice._dead_letter_filter_sql()
    )
    using conditional, conditional_headers, since, until, queue_name, reason, error_type
    into v_count;
    return v_count;
end;
$$;

comment on function sluice.count_dead_letters(text, jsonb, jsonb, timestamptz, timestamptz, text, text) is
    'Return the number of dead letters of a queue that match a filter; since and until apply to dead_at.';
revoke execute on function sluice.count_dead_letters(text, jsonb, jsonb, timestamptz, timestamptz, text, text) from public;
grant execute on function sluice.count_dead_letters(text, jsonb, jsonb, timestamptz, timestamptz, text, text) to sluice_admin, sluice_reader;
