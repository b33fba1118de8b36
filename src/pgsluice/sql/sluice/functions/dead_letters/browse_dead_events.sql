-- Without a filter, it reads only the rows it returns; with one, also those it skips.
-- Dropping a group or log keeps its dead events.
create or replace function sluice.browse_dead_events(
    queue_name text,
    group_name text,
    after_dead_event_id bigint default null,
    qty integer default 100,
    ev_type text default null,
    reason text default null,
    ev_ids bigint[] default null,
    since timestamptz default null,
    until timestamptz default null
)
returns setof sluice.dead_event
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        'select m.*
         from sluice.dead_event as m
         where ($8 is null or m.dead_event_id > $8)
           and %s
         order by m.dead_event_id
         limit $9',
        sluice._dead_event_filter_sql()
    )
    using queue_name, group_name, ev_type, reason, ev_ids, since, until, after_dead_event_id, qty;
end;
$$;

comment on function sluice.browse_dead_events(text, text, bigint, integer, text, text, bigint[], timestamptz, timestamptz) is
    'Return dead events of a share group after a dead_event_id, lowest first; since and until apply to dead_at.';
revoke execute on function sluice.browse_dead_events(text, text, bigint, integer, text, text, bigint[], timestamptz, timestamptz) from public;
grant execute on function sluice.browse_dead_events(text, text, bigint, integer, text, text, bigint[], timestamptz, timestamptz) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
