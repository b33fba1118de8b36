-- A range of times of an archive is read by its index; everything else reads the table.
create or replace function sluice.count_messages(
    queue_name text,
    relation text default 'queue',
    conditional jsonb default '{}',
    conditional_headers jsonb default '{}',
    since timestamptz default null,
    until timestamptz default null
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count bigint;
begin
    execute format(
        'select count(*) from pgmq.%I as m where %s',
        sluice._relation_table(queue_name, relation),
        sluice._filter_sql(case relation when 'archive' then 'archived_at' else 'enqueued_at' end)
    )
    using conditional, conditional_headers, since, until
    into v_count;
    return v_count;
end;
$$;

comment on function sluice.count_messages(text, text, jsonb, jsonb, timestamptz, timestamptz) is
    'Return the number of messages of a queue (relation queue) or its archive (archive) that match a filter. Time: enqueued_at or archived_at.';
revoke execute on function sluice.count_messages(text, text, jsonb, jsonb, timestamptz, timestamptz) from public;
grant execute on function sluice.count_messages(text, text, jsonb, jsonb, timestamptz, timestamptz) to sluice_admin, sluice_reader;
