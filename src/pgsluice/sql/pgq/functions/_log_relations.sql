/*
 * The tables and sequences of event logs: kind is `events`, `ticks` (the two parents), `event segment`, `tick segment`,
 * `event ids` or `tick ids`. Segments are read from the catalog, because queue_ntables may be changed by hand. Each is
 * looked up by name or oid, through an index: matching all names of the catalog with a pattern takes a second with
 * thousands of logs.
 */
create or replace function pgq._log_relations(i_queue_ids integer[], out queue_id integer, out kind text, out relation oid)
returns setof record
language sql
stable
rows 20 -- few, so that the planner chooses index scans
set search_path = pg_catalog, pg_temp
as $$
    with named as materialized (
        select l.id, n.kind, c.oid
        from unnest(i_queue_ids) as l (id)
        cross join lateral (values
            ('events', format('event_%s', l.id), 'r'::"char"),
            ('ticks', format('tick_%s', l.id), 'r'),
            ('event ids', format('event_%s_id_seq', l.id), 'S'),
            ('tick ids', format('event_%s_tick_seq', l.id), 'S')
        ) as n (kind, name, relkind)
        join pg_class as c on c.relnamespace = 'pgq'::regnamespace and c.relname = n.name::name and c.relkind = n.relkind
    )
    select n.id, n.kind, n.oid from named as n
    union all
    select n.id, case n.kind when 'events' then 'event segment' else 'tick segment' end, c.oid
    from named as n
    join pg_inherits as i on i.inhparent = n.oid
    join pg_class as c on c.oid = i.inhrelid
    where n.kind in ('events', 'ticks')
      and c.relnamespace = 'pgq'::regnamespace
      and c.relkind = 'r'
      and c.relname ~ '^(event|tick)_[0-9]+_[0-9]+$';
$$;

comment on function pgq._log_relations(integer[]) is
    'List the tables and sequences of event logs.';
revoke execute on function pgq._log_relations(integer[]) from public;
grant execute on function pgq._log_relations(integer[]) to pgq_admin, sluice_admin;
