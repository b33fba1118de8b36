-- A row for each declaration, and for each type without one that has waiting or unhandled events. The workers are those that run a handler of the type.
create or replace function sluice.list_types(log_name text, group_name text)
returns table (
    ev_type text, app text, handler text, declared_at timestamptz, workers bigint, waiting bigint, waiting_keys bigint, since timestamptz,
    accepted bigint, dead_lettered bigint, last_unhandled_at timestamptz
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_group constant sluice.share_group := sluice._require_group(list_types.log_name, list_types.group_name);
    v_claim constant sluice.claim := sluice._last_claim(v_group.group_id);
    v_source constant text := lower(format('log %s group %s', list_types.log_name, list_types.group_name));
begin
    return query
        with declared as (
            select t.ev_type, t.app, t.handler, t.noted_at as declared_at, count(w.worker_id) as workers
            from sluice.group_type as t
            left join sluice.list_workers() as w
                on w.is_live
                and w.app = t.app
                and w.counts ? t.handler
                and v_source = any (array(select lower(s.source) from unnest(w.sources) as s (source)))
            where t.group_id = v_group.group_id and t.is_handled
            group by t.ev_type, t.app, t.handler, t.noted_at
        ),
        lanes as (
            select l.lane, (l.state ->> 'events')::bigint as events, (l.state ->> 'keys')::bigint as keys, (l.state ->> 'since')::timestamptz as since
            from jsonb_each(v_claim.left_lanes) as l (lane, state)
        ),
        unhandled as (
            select u.ev_type, u.accepted, u.dead_lettered, u.noted_at as last_at
            from sluice.group_type as u
            where u.group_id = v_group.group_id and not u.is_handled
        ),
        others as (
            select coalesce(l.lane, u.ev_type) as ev_type, l.events, l.keys, l.since, u.accepted, u.dead_lettered, u.last_at
            from (select n.* from lanes as n where n.lane <> all (v_group.types)) as l
            full join unhandled as u on u.ev_type = l.lane
        )
        select nullif(d.ev_type, ''), d.app, d.handler, d.declared_at, d.workers,
            case when d.ev_type = '' then null else coalesce(l.events, 0) end, case when d.ev_type = '' then null else coalesce(l.keys, 0) end, l.since,
            null::bigint, null::bigint, null::timestamptz
        from declared as d
        left join lanes as l on l.lane = d.ev_type and d.ev_type <> ''
        union all
        select nullif(o.ev_type, ''), null, null, null,
            case when v_group.has_others then (select coalesce(sum(d.workers), 0)::bigint from declared as d where d.ev_type = '') end,
            coalesce(o.events, 0), coalesce(o.keys, 0), o.since, coalesce(o.accepted, 0), coalesce(o.dead_lettered, 0), o.last_at
        from others as o
        order by 1 nulls last, 2, 3;
end;
$$;

comment on function sluice.list_types(text, text) is
    'Return the event types of a share group: the handler that is declared for it and its app (ev_type null: for all others), how many live workers run it, how many events or keys wait for it, and of types without a handler how many events were accepted or dead-lettered.';
revoke execute on function sluice.list_types(text, text) from public;
grant execute on function sluice.list_types(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
