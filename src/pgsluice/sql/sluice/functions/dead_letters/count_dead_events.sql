create or replace function sluice.count_dead_events(
    queue_name text,
    group_name text,
    ev_type text default null,
    reason text default null,
    ev_ids bigint[] default null,
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
    execute format('select count(*) from sluice.dead_event as m where %s', sluice._dead_event_filter_sql())
    using queue_name, group_name, ev_type, reason, ev_ids, since, until
    into v_count;
    return v_count;
end;
$$;

comment on function sluice.count_dead_events(text, text, text, text, bigint[], timestamptz, timestamptz) is
    'Return the number of dead events of a share group that match a filter; since and until apply to dead_at.';
revoke execute on function sluice.count_dead_events(text, text, text, text, bigint[], timestamptz, timestamptz) from public;
grant execute on function sluice.count_dead_events(text, text, text, text, bigint[], timestamptz, timestamptz) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
