-- Ids only: payloads may be large, and those who redrive or purge need none.
create or replace function sluice.list_dead_event_ids(
    queue_name text,
    group_name text,
    after_dead_event_id bigint default null,
    qty integer default 1000,
    since timestamptz default null,
    until timestamptz default null
)
returns setof bigint
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select m.dead_event_id
    from sluice.dead_event as m
    where m.queue_name = list_dead_event_ids.queue_name
      and m.group_name = list_dead_event_ids.group_name
      and m.dead_event_id > coalesce(after_dead_event_id, -1)
      and m.dead_at >= coalesce(since, '-infinity')
      and m.dead_at < coalesce(until, 'infinity')
    order by m.dead_event_id
    limit qty;
$$;

comment on function sluice.list_dead_event_ids(text, text, bigint, integer, timestamptz, timestamptz) is
    'Return ids of dead events of a share group after a dead_event_id, lowest first, at most qty; since and until apply to dead_at.';
revoke execute on function sluice.list_dead_event_ids(text, text, bigint, integer, timestamptz, timestamptz) from public;
grant execute on function sluice.list_dead_event_ids(text, text, bigint, integer, timestamptz, timestamptz) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
