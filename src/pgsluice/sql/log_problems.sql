-- Event logs that cannot work, or lose events: the kind, the name, the problem and the way out. Reads the catalog and
-- pgq.queue. sluice.list_log_problems() looks at rows: ticks, positions and claims.
with
owner (name, oid) as (
    select pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(n.nspowner)), n.nspowner from pg_catalog.pg_namespace as n where n.nspname = 'pgq'
),
relation as materialized (
    select c.oid, c.relowner, c.relname::text as name, c.relkind, c.relpersistence, pg_catalog.format('pgq.%I', c.relname) as full_name,
        substring(c.relname from '^(?:event|tick)_([0-9]+)')::bigint as queue_id,
        substring(c.relname from '^(event|tick)_') as kind,
        substring(c.relname from '^(?:event|tick)_[0-9]+_([0-9]+)$')::bigint as number
    from pg_catalog.pg_class as c
    where c.relnamespace = 'pgq'::pg_catalog.regnamespace and c.relkind = 'r' and c.relname ~ '^(event|tick)_[0-9]+(_[0-9]+)?$'
),
-- Segments are never dropped: one was created for each number below the highest. At least the first are in PgQ, too.
segment (queue_id, name, kind, number, full_name) as (
    select q.queue_id, q.queue_name, k.kind, n.number, pg_catalog.format('pgq.%I', pg_catalog.format('%s_%s_%s', k.kind, q.queue_id, n.number))
    from pgq.queue as q
    -- Grouped once: a subquery for each log would read the tables of all logs.
    left join (select r.queue_id, max(r.number) as number from relation as r group by r.queue_id) as highest on highest.queue_id = q.queue_id
    cross join lateral (select greatest(q.queue_cur_table, least(q.queue_ntables, 3) - 1, highest.number)) as last (number)
    cross join lateral pg_catalog.generate_series(0, last.number) as n (number)
    cross join (values ('event'), ('tick')) as k (kind)
)
select 'log' as kind, q.queue_name as name, pg_catalog.format('its sequence %s is missing', s.name) as problem,
    pg_catalog.format(
        'create it, above all numbers in use, with: set role %4$s; create sequence %1$s; '
        'select setval(%1$L, greatest(1, (select max(%3$s) from pgq.%2$I))); reset role; then run: pgsluice schema upgrade',
        s.name, pg_catalog.format(s.table_name, q.queue_id), s.number, owner.name
    ) as hint
from pgq.queue as q
cross join owner
cross join lateral (
    values (pg_catalog.format('pgq.event_%s_id_seq', q.queue_id), 'event_%s', 'ev_id'),
        (pg_catalog.format('pgq.event_%s_tick_seq', q.queue_id), 'tick_%s', 'tick_id')
) as s (name, table_name, number)
where not exists (
    select from pg_catalog.pg_class as c where c.oid = pg_catalog.to_regclass(s.name) and c.relkind = 'S'
)
union all
select 'log', q.queue_name, pg_catalog.format('its table pgq.%I is missing, with all segments', t.name),
    'restore it from a backup; if its events are not needed, pgsluice log drop removes the log with its consumers and groups'
from pgq.queue as q
cross join lateral (values (pg_catalog.format('event_%s', q.queue_id)), (pg_catalog.format('tick_%s', q.queue_id))) as t (name)
where not exists (select from relation as r where r.name = t.name)
union all
select 'log', s.name, pg_catalog.format('its table %s is missing, with its %ss', s.full_name, s.kind),
    pg_catalog.format(
        'create it empty with: set role %s; select pgq._create_segment(%s, %s); reset role; then run: pgsluice schema upgrade',
        owner.name, s.queue_id, s.number
    )
from segment as s
cross join owner
where not exists (select from relation as r where r.full_name = s.full_name)
  and exists (select from relation as r where r.name = pg_catalog.format('%s_%s', s.kind, s.queue_id))
union all
select 'log', s.name, pg_catalog.format('%s is detached from its log: its %ss are not read', s.full_name, s.kind),
    pg_catalog.format('alter table %s inherit pgq.%I', s.full_name, pg_catalog.format('%s_%s', s.kind, s.queue_id))
from segment as s
join relation as r on r.full_name = s.full_name
-- Not joined with the relations: the planner would compare each table with every other one.
cross join lateral pg_catalog.to_regclass(pg_catalog.format('pgq.%I', pg_catalog.format('%s_%s', s.kind, s.queue_id))) as p (oid)
where p.oid is not null
  and not exists (select from pg_catalog.pg_inherits as i where i.inhrelid = r.oid and i.inhparent = p.oid)
union all
select 'log', q.queue_name, pg_catalog.format('pgq.%I does not inherit from pgq.%I', r.name, t.parent),
    pg_catalog.format('alter table pgq.%I inherit pgq.%I', r.name, t.parent)
from pgq.queue as q
join relation as r on r.queue_id = q.queue_id and r.number is null
cross join lateral (select case r.kind when 'event' then 'event_template' else 'tick' end) as t (parent)
where not exists (
    select from pg_catalog.pg_inherits as i where i.inhrelid = r.oid and i.inhparent = pg_catalog.format('pgq.%I', t.parent)::pg_catalog.regclass
)
union all
select 'log', q.queue_name, pg_catalog.format('%s has no valid index on %s', r.full_name, i.column_name), i.hint
from pgq.queue as q
join relation as r on r.queue_id = q.queue_id
join lateral (
    values ('event', 'ev_txid', pg_catalog.format('create index on %s (ev_txid, ev_id)', r.full_name)),
        ('event', 'ev_id', pg_catalog.format('create index on %s (ev_id)', r.full_name)), -- since the first share group
        ('tick', 'tick_id', pg_catalog.format('alter table %s add primary key (tick_id)', r.full_name))
) as i (kind, column_name, hint) on i.kind = r.kind
where (i.column_name <> 'ev_id' or pg_catalog.to_regclass(pg_catalog.format('pgq.event_%s_id_idx', q.queue_id)) is not null)
  and not exists (
    select
    from pg_catalog.pg_index as x
    join pg_catalog.pg_attribute as a on a.attrelid = x.indrelid and a.attnum = x.indkey[0]
    where x.indrelid = r.oid and a.attname = i.column_name::name and x.indisvalid
)
union all
select 'log', q.queue_name, pg_catalog.format('%s is unlogged: a crash of the server empties it', r.full_name),
    pg_catalog.format('alter table %s set logged', r.full_name)
from pgq.queue as q
join relation as r on r.queue_id = q.queue_id
where r.relpersistence = 'u'
union all
-- Of a role that is not trusted: foreign.sql.
select 'log', q.queue_name, pg_catalog.format('%s belongs to %s: functions of the schema''s owner cannot use it', r.full_name, r.relowner::pg_catalog.regrole),
    pg_catalog.format('alter table %s owner to %s', r.full_name, owner.name)
from pgq.queue as q
join relation as r on r.queue_id = q.queue_id
join owner on owner.oid <> r.relowner
where pg_catalog.pg_has_role(r.relowner, owner.oid, 'member')
union all
select 'log', q.queue_name, pg_catalog.format('rule %I rewrites writes of %s', u.rulename, r.full_name),
    pg_catalog.format('drop rule %I on %s', u.rulename, r.full_name)
from pgq.queue as q
join relation as r on r.queue_id = q.queue_id
join pg_catalog.pg_rewrite as u on u.ev_class = r.oid
union all
select 'log', q.queue_name, pg_catalog.format('trigger %I of %s can discard rows: its function returns null', t.tgname, r.full_name),
    pg_catalog.format('let %s return NEW, or drop trigger %I on %s', t.tgfoid::pg_catalog.regprocedure, t.tgname, r.full_name)
from pgq.queue as q
join relation as r on r.queue_id = q.queue_id
join pg_catalog.pg_trigger as t on t.tgrelid = r.oid and not t.tgisinternal and t.tgtype & 3 = 3 and t.tgenabled in ('O', 'A')
join pg_catalog.pg_proc as f on f.oid = t.tgfoid and f.prosrc ~* E'\\mreturn\\s+null\\M'
union all
select 'log', q.queue_name, pg_catalog.format('its function pgq.%I is missing', f.name),
    'create it again with: pgsluice schema upgrade'
from pgq.queue as q
cross join lateral (
    values (pg_catalog.format('event_%s_any', q.queue_id)), (pg_catalog.format('tick_%s_last', q.queue_id))
) as f (name)
where not exists (
    select
    from pg_catalog.pg_proc as p
    where p.pronamespace = 'pgq'::pg_catalog.regnamespace and p.proname = f.name::name
)
union all
-- Its events are in the tables, and the settings and consumers of the log are lost with the row.
select 'log', pg_catalog.format('%s (number)', r.queue_id), pg_catalog.format('%s has no row in pgq.queue', r.full_name),
    'restore its row in pgq.queue, and those of its consumers, from a backup; its events stay in the tables until these are dropped'
from relation as r
where r.kind = 'event'
  and r.number is null
  and not exists (select from pgq.queue as q where q.queue_id = r.queue_id)
union all
-- Foreign keys prevent both, unless they were dropped.
select 'log', coalesce(q.queue_name, s.sub_queue::text), pg_catalog.format('the row of consumer %s in pgq.consumer is missing', s.sub_consumer),
    pg_catalog.format(
        'write it again, with the consumer''s name, which keeps its position: insert into pgq.consumer (co_id, co_name) values (%s, ''NAME'')',
        s.sub_consumer
    )
from pgq.subscriber as s
left join pgq.queue as q on q.queue_id = s.sub_queue
where not exists (select from pgq.consumer as c where c.co_id = s.sub_consumer)
order by 1, 2, 3;
