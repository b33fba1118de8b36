create or replace function sluice.count_dead_letters(
    queue_name text, consumer_name text default null, filter jsonb default '{}'
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter constant sluice.dead_letter_filter := sluice._dead_letter_filter(filter);
    v_count bigint;
begin
    execute format(
        'select count(*) from sluice.%I as m where %s',
        sluice._dead_letter_table(consumer_name), sluice._dead_letter_filter_sql(consumer_name)
    )
    using v_filter.message, v_filter.headers, v_filter.since, v_filter.until, queue_name, consumer_name, v_filter
    into v_count;
    return v_count;
end;
$$;

comment on function sluice.count_dead_letters(text, text, jsonb) is
    'Return the number of dead letters of a queue, or of a share group or consumer of a log, that match a filter as that of sluice.list_dead_letters.';
revoke execute on function sluice.count_dead_letters(text, text, jsonb) from public;
grant execute on function sluice.count_dead_letters(text, text, jsonb) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
