-- Queues that cannot work, or lose messages: the kind, the name, the problem and the way out. Reads the catalog and
-- pgmq.meta, which `schema install --tables-only` installs too.
with
relation as materialized (
    select c.oid, c.relname::text as name, c.relkind, c.relpersistence, c.relispartition, c.relforcerowsecurity,
        pg_catalog.format('pgmq.%I', c.relname) as full_name
    from pg_catalog.pg_class as c
    where c.relnamespace = 'pgmq'::pg_catalog.regnamespace
      and c.relkind in ('r', 'p')
      and c.relname ~ '^[qa]_'
),
-- Tables without a queue, nearly always none. As a set, and materialized: a planner that expects few rows would compare each
-- table with every queue.
unlisted as materialized (
    select r.*
    from (
        select r.name from relation as r where r.name ~ '^q_' and not r.relispartition
        except
        select pg_catalog.lower('q_' || m.queue_name) from pgmq.meta as m
    ) as u
    join relation as r on r.name = u.name
),
queue as materialized (
    select m.queue_name::text as name, m.is_partitioned, m.is_unlogged, k.kind, t.name as table_name
    from pgmq.meta as m
    cross join (values ('q'), ('a')) as k (kind)
    cross join lateral (select pg_catalog.lower(k.kind || '_' || m.queue_name)) as t (name)
),
-- A table with its queue; partitions belong to the queue of their table.
part (oid, name, kind, table_name) as (
    select r.oid, q.name, q.kind, q.table_name
    from queue as q
    join relation as r on r.name = q.table_name
    union all
    select t.relid, q.name, q.kind, t.relid::pg_catalog.regclass::text
    from queue as q
    join relation as r on r.name = q.table_name and r.relkind = 'p'
    cross join lateral pg_catalog.pg_partition_tree(r.oid) as t
    where t.relid <> r.oid
),
wanted (kind, column_name, definition) as (
    select k.kind, c.name, c.definition
    from (values ('q'), ('a')) as k (kind)
    cross join (
        values ('msg_id', 'bigint'), ('read_ct', 'integer not null default 0'),
            ('enqueued_at', 'timestamptz not null default now()'), ('last_read_at', 'timestamptz'),
            ('archived_at', 'timestamptz not null default now()'), ('vt', 'timestamptz not null default now()'),
            ('message', 'jsonb'), ('headers', 'jsonb')
    ) as c (name, definition)
    where k.kind = 'a' or c.name <> 'archived_at'
)
select 'queue' as kind, q.name,
    'its name contains invalid characters: $, ;, --, or ''' as problem,
    'rename its tables and its row in pgmq.meta; or delete the row, with which its topic bindings and settings go: tables stay' as hint
from queue as q
where q.kind = 'q' and q.name ~ '[$;'']|--'
union all
select 'queue', q.name, pg_catalog.format('its table pgmq.%I is missing, with its messages', q.table_name),
    case
        when q.is_partitioned
            then 'restore it from a backup'
        else pg_catalog.format('create it anew, empty, with: pgsluice queue create %s', q.name)
    end
from queue as q
where q.name !~ '[$;'']|--' and not exists (select from relation as r where r.name = q.table_name)
union all
-- The row can be written again: it has no other data.
select 'queue', pg_catalog.substr(r.name, 3), pg_catalog.format('%s has no row in pgmq.meta', r.full_name),
    pg_catalog.format(
        'write it again, which keeps the messages, with: insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) '
        'values (%L, %s, %s); settings and topic bindings went with the row: set them again',
        pg_catalog.substr(r.name, 3), (r.relkind = 'p')::text, (r.relpersistence = 'u')::text
    )
from unlisted as r
-- A detached partition: below.
where not exists (
      select from queue as q join relation as p on p.name = q.table_name and p.relkind = 'p' where pg_catalog.starts_with(r.name, q.table_name || '_')
  )
  -- Not any table with such a name.
  and (
      select count(*)
      from pg_catalog.pg_attribute as a
      where a.attrelid = r.oid and a.attname in ('msg_id', 'read_ct', 'enqueued_at', 'vt', 'message') and not a.attisdropped
  ) = 5
union all
select 'queue', q.name, pg_catalog.format('%s is detached, and its messages are not seen', r.full_name),
    pg_catalog.format('attach it again with: alter table pgmq.%I attach partition %s for values from (...) to (...)', q.table_name, r.full_name)
from queue as q
join relation as p on p.name = q.table_name and p.relkind = 'p'
join relation as r
    on pg_catalog.starts_with(r.name, q.table_name || '_')
        and r.name ~ '_([pP][0-9_]+|default)$'
        and not r.relispartition
        and r.relkind = 'r'
where pg_catalog.pg_relation_size(r.oid) > 0
  and not exists (select from queue as other where other.table_name = r.name)
union all
select 'queue', p.name, pg_catalog.format('column %s of pgmq.%I is missing', w.column_name, p.table_name),
    pg_catalog.format(
        'add it, without its values, with: alter table pgmq.%I add column %I %s', p.table_name, w.column_name, w.definition
    )
from queue as q
join relation as r on r.name = q.table_name
join part as p on p.oid = r.oid
join wanted as w on w.kind = q.kind
where not exists (
    select from pg_catalog.pg_attribute as a where a.attrelid = r.oid and a.attname = w.column_name::name and not a.attisdropped
)
union all
select 'queue', q.name, pg_catalog.format('msg_id of %s has no identity: messages get no id', r.full_name),
    pg_catalog.format(
        'alter table %1$s alter column msg_id add generated always as identity, and set the sequence above the ids of queue and archive',
        r.full_name
    )
from queue as q
join relation as r on r.name = q.table_name
join pg_catalog.pg_attribute as a on a.attrelid = r.oid and a.attname = 'msg_id' and a.attidentity = '' and not a.atthasdef
where q.kind = 'q'
union all
-- Readers of a queue are planned for its indexes. The first column tells what an index is for: names may differ.
select 'queue', q.name, pg_catalog.format('%s has no valid index on %s', r.full_name, i.column_name), i.hint
from queue as q
join relation as r on r.name = q.table_name
join lateral (
    values
        (
            'msg_id',
            case
                when r.relkind = 'r' then pg_catalog.format('alter table %s add primary key (msg_id)', r.full_name)
                else 'create its primary key again'
            end
        ),
        (
            case q.kind when 'q' then 'vt' else 'archived_at' end,
            pg_catalog.format('create it again with: pgsluice queue create %s', q.name)
        )
) as i (column_name, hint) on true
where not exists (
    select
    from pg_catalog.pg_index as x
    join pg_catalog.pg_attribute as a on a.attrelid = x.indrelid and a.attnum = x.indkey[0]
    where x.indrelid = r.oid
      and a.attname = i.column_name::name
      and x.indisvalid
      and (i.column_name <> 'msg_id' or x.indisunique)
)
union all
select 'queue', q.name, pg_catalog.format('%s is unlogged: a crash of the server empties it', r.full_name),
    pg_catalog.format('alter table %s set logged', r.full_name)
from queue as q
join relation as r on r.name = q.table_name
where r.relpersistence = 'u' and not (q.is_unlogged and q.kind = 'q')
union all
select 'queue', p.name, pg_catalog.format('rule %I rewrites writes of %s', u.rulename, u.ev_class::pg_catalog.regclass),
    pg_catalog.format('drop rule %I on %s', u.rulename, u.ev_class::pg_catalog.regclass)
from part as p
join pg_catalog.pg_rewrite as u on u.ev_class = p.oid
union all
-- Only of functions whose text can return null: others may be there on purpose.
select 'queue', p.name, pg_catalog.format('trigger %I of %s can discard rows: its function returns null', t.tgname, p.oid::pg_catalog.regclass),
    pg_catalog.format('let %s return NEW (OLD if a row is deleted), or drop trigger %I on %s', t.tgfoid::pg_catalog.regprocedure, t.tgname, p.oid::pg_catalog.regclass)
from part as p
join pg_catalog.pg_trigger as t on t.tgrelid = p.oid and not t.tgisinternal and t.tgtype & 3 = 3 and t.tgenabled in ('O', 'A')
join pg_catalog.pg_proc as f on f.oid = t.tgfoid and f.prosrc ~* E'\\mreturn\\s+null\\M'
where t.tgparentid = 0
union all
select 'queue', q.name, pg_catalog.format('row-level security of %s applies to its owner, and no policy shows a row', r.full_name),
    pg_catalog.format('alter table %s no force row level security', r.full_name)
from queue as q
join relation as r on r.name = q.table_name
where r.relforcerowsecurity and not exists (select from pg_catalog.pg_policy as p where p.polrelid = r.oid)
order by 1, 2, 3;
