-- The plan, one line per step, in order.
with
step (position, line) as (
    select 10, format('lock tables until the end, which blocks senders and readers: %s', count(*))
    from adopted_object as o
    where o.kind = 'table'
    union all
    select 20, format(
        'detach objects from the extension pgmq %2$s, and drop it: %1$s',
        (
            select count(*)
            from pg_depend as d
            where d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid and d.deptype = 'e'
        ),
        e.extversion
    )
    from adopted_extension as e
    union all
    select 21,
        'configure clients that create the extension when they start, before their next restart (Python: init_extension=False, '
        'Rust: no init()): docs/guides/adopt.md'
    from adopted_extension as e
    union all
    select 30, format('replace functions in place: %s', count(*))
    from adopted_function as f
    where f.action = 'replace'
    having count(*) > 0
    union all
    select 31, format('drop and recreate functions: %s (%s)', count(*), string_agg(f.signature, ', ' order by f.signature))
    from adopted_function as f
    where f.action = 'drop' and f.is_ours
    having count(*) > 0
    union all
    select 32, format('drop functions: %s (%s)', count(*), string_agg(f.signature, ', ' order by f.signature))
    from adopted_function as f
    where f.action = 'drop' and not f.is_ours
    having count(*) > 0
    union all
    select 33, format('keep functions that are not PGMQ''s: %s (%s)', count(*), string_agg(f.signature, ', ' order by f.signature))
    from adopted_function as f
    where f.action = 'keep'
    having count(*) > 0
    union all
    select 40, case t.action
        when 'extend' then format('add to type pgmq.%I: %s', t.name, array_to_string(t.missing, ', '))
        else format('drop and recreate type pgmq.%I', t.name)
    end
    from adopted_type as t
    where t.action <> 'keep'
    union all
    select 50, format('create table pgmq.%I', wanted.name)
    from (values ('notify_insert_throttle'), ('topic_bindings')) as wanted (name)
    where to_regclass(format('pgmq.%I', wanted.name)) is null
    union all
    select 51, 'set table pgmq.notify_insert_throttle logged'
    from pg_class as c
    where c.oid = to_regclass('pgmq.notify_insert_throttle') and c.relpersistence = 'u'
    union all
    select 52, format('add columns (headers, last_read_at) to tables of queues: %s', sum(q.columns_missing))
    from adopted_queue as q
    having sum(q.columns_missing) > 0
    union all
    select 60, format(
        'recreate the indexes of queues: %s (%s logged, %s unlogged, %s partitioned), reading %s',
        count(*),
        count(*) filter (where not q.is_unlogged and not q.is_partitioned),
        count(*) filter (where q.is_unlogged),
        count(*) filter (where q.is_partitioned),
        pg_size_pretty(coalesce(sum(
            (select sum(pg_table_size(t.oid)) from (
                select q.queue_oid as oid union select t.relid from pg_partition_tree(q.queue_oid) as t
            ) as t)
        ), 0))
    )
    from adopted_queue as q
    where q.queue_oid is not null
    union all
    select 61, format('make the sequences of unlogged queues logged: %s', count(*))
    from adopted_queue as q
    where q.has_unlogged_ids
    having count(*) > 0
    union all
    select 62, format('replace FIFO indexes: %s', count(*))
    from adopted_queue as q
    where q.has_gin
    having count(*) > 0
    union all
    select 63, format('replace notify triggers, and keep their throttles: %s', count(*))
    from adopted_queue as q
    where q.has_trigger
    having count(*) > 0
    union all
    select 64, format('skip queue %L, whose table is missing: restore the table, or delete its row from pgmq.meta', q.queue_name)
    from adopted_queue as q
    where q.queue_oid is null
    union all
    select 65, format('leave the partitions of queue %L to pg_partman: keep its maintenance running', q.queue_name)
    from adopted_queue as q
    where q.is_partitioned and q.queue_oid is not null
    union all
    select 70, format(
        'grant %I execute on %s', g.rolname,
        case when g.all_of_them then 'all functions' else format('the %s functions it may call', cardinality(g.function_names)) end
    )
    from adopted_grant as g
    union all
    select 80, 'create schemas pgq, pgq_coop and sluice'
    where to_regclass('pgq.event_template') is null
)
select s.line
from step as s
order by s.position, s.line collate "C";
