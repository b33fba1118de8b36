-- Queues and logs whose tables are missing or broken: the kind, the name, the problem and the way out.
select 'queue', m.queue_name::text, p.problem, p.way_out
from pgmq.meta as m
cross join lateral (
    select pg_catalog.lower('q_' || m.queue_name) as queue_table, pg_catalog.lower('a_' || m.queue_name) as archive
) as t
cross join lateral (
    select 'its name contains invalid characters: $, ;, --, or ''', 'delete its row from pgmq.meta'
    where m.queue_name ~ '\$|;|--|'''
    union all
    select pg_catalog.format('its table pgmq.%I is missing', missing.name),
        pg_catalog.format('create what is missing with: pgsluice queue create %s; or delete its row from pgmq.meta', m.queue_name)
    from (values (1, t.queue_table), (2, t.archive)) as missing (place, name)
    where m.queue_name !~ '\$|;|--|'''
      and not exists (
        select
        from pg_catalog.pg_class as c
        where c.relnamespace = 'pgmq'::pg_catalog.regnamespace and c.relname = missing.name::name
      )
) as p (problem, way_out)
union all
select 'log', q.queue_name, pg_catalog.format('its %s pgq.%I is missing', missing.kind, missing.name), missing.way_out
from pgq.queue as q
cross join lateral (
    select 'sequence', s.name, 'restore it from a backup, or drop the log'
    from (
        values (pg_catalog.format('event_%s_id_seq', q.queue_id)), (pg_catalog.format('event_%s_tick_seq', q.queue_id))
    ) as s (name)
    where not exists (
        select
        from pg_catalog.pg_class as c
        where c.relnamespace = 'pgq'::pg_catalog.regnamespace and c.relname = s.name::name
    )
    union all
    select 'table', s.name, 'restore it from a backup, or drop the log'
    from (
        values (pg_catalog.format('event_%s', q.queue_id)),
            (pg_catalog.format('event_%s_%s', q.queue_id, q.queue_cur_table)),
            (pg_catalog.format('tick_%s_%s', q.queue_id, q.queue_cur_table))
    ) as s (name)
    where not exists (
        select
        from pg_catalog.pg_class as c
        where c.relnamespace = 'pgq'::pg_catalog.regnamespace and c.relname = s.name::name
    )
    union all
    select 'function', s.name, 'create it again with: pgsluice schema upgrade'
    from (values (pg_catalog.format('event_%s_any', q.queue_id)), (pg_catalog.format('tick_%s_last', q.queue_id))) as s (name)
    where not exists (
        select
        from pg_catalog.pg_proc as p
        where p.pronamespace = 'pgq'::pg_catalog.regnamespace and p.proname = s.name::name
    )
) as missing (kind, name, way_out)
order by 1, 2, 3;
