-- A range of times of an archive is read by its index; everything else reads the table.
create or replace function sluice.count_messages(
    queue_name text,
    relation text default 'queue',
    conditional jsonb default '{}',
    conditional_headers jsonb default '{}',
    since timestamptz default null,
    until timestamptz default null,
    matching text default null
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count bigint;
begin
    execute (
        select format(
            'select count(*) from (%s) as counted',
            string_agg(format('select 1 from %s and %s', p.source, f.condition), ' union all ')
        )
        from sluice._stored_places(queue_name, relation, true) as p
        cross join lateral sluice._filter_sql(
            case relation when 'archive' then 'archived_at' else 'enqueued_at' end, '$5'::text, false
        ) as f (condition)
    )
    using conditional, conditional_headers, since, until, matching
    into v_count;
    return v_count;
end;
$$;

comment on function sluice.count_messages(text, text, jsonb, jsonb, timestamptz, timestamptz, text) is
    'Return the number of messages of a queue that match a filter, as those of sluice.browse.';
revoke execute on function sluice.count_messages(text, text, jsonb, jsonb, timestamptz, timestamptz, text) from public;
grant execute on function sluice.count_messages(text, text, jsonb, jsonb, timestamptz, timestamptz, text) to sluice_admin, sluice_reader;
