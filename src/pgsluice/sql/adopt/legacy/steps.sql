-- The plan for PGMQ 0.20, one line per step, in order.
with
step (position, line) as (
    select 10, format('lock tables of PGMQ 0.20 until the end, which blocks senders and readers: %s', count(*))
    from adopted_old_object as o
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
    from adopted_old_extension as e
    union all
    select 30, format('replace functions pgmq_... of PGMQ 0.20: %s', count(*))
    from adopted_old_function as f
    having count(*) > 0
    union all
    select 40, format(
        'move queue %L with its messages, its archive and its ids: %s to pgmq.%I, %s to pgmq.%I',
        q.queue_name, q.queue_oid::regclass, lower('q_' || q.queue_name),
        coalesce(q.archive_oid::regclass::text, 'a new table'), lower('a_' || q.queue_name)
    )
    from adopted_old_queue as q
    where q.queue_oid is not null
    union all
    select 41, format('skip queue %L of public.pgmq_meta, whose table is missing', q.queue_name)
    from adopted_old_queue as q
    where q.queue_oid is null
    union all
    select 50, 'replace table public.pgmq_meta by a view of the queues'
    from pg_class as c
    where c.oid = to_regclass('public.pgmq_meta') and c.relkind in ('r', 'p')
    union all
    select 60, format('grant %I usage on schema pgmq, and execute on the functions of queues', r.rolname)
    from adopted_old_role as r
    union all
    select 70, 'create the schemas of pgsluice that do not exist, and install the functions pgmq_...'
)
select s.line
from step as s
order by s.position, s.line collate "C";
