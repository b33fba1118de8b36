-- The plan, one line per step, in order.
with
step (position, line) as (
    select 10, format('lock tables of PgQ until the end, which blocks producers and consumers: %s', count(*))
    from adopted_table as t
    where t.name like 'pgq.%'
    union all
    select 20, format(
        'detach objects from the extension pgq %2$s, and drop it: %1$s',
        (
            select count(*)
            from pg_depend as d
            where d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid and d.deptype = 'e'
        ),
        e.extversion
    )
    from pg_extension as e
    where e.extname = 'pgq'
    union all
    select 30, format('replace functions of PgQ in place, including trigger functions: %s', count(*))
    from adopted_log_function as f
    where f.action = 'replace'
    having count(*) > 0
    union all
    select 31, format('drop functions: %s (%s)', count(*), string_agg(f.signature, ', ' order by f.signature))
    from adopted_log_function as f
    where f.action = 'drop'
    having count(*) > 0
    union all
    select 32, format('keep functions that are not PgQ''s: %s (%s)', count(*), string_agg(f.signature, ', ' order by f.signature))
    from adopted_log_function as f
    where f.action = 'keep'
    having count(*) > 0
    union all
    select 40, format(
        'widen transaction ids to xid8, rewriting the event tables of logs: %s, %s', count(*), pg_size_pretty(coalesce(sum(l.bytes), 0))
    )
    from adopted_log as l
    union all
    select 50, 'move ticks into segments, subscriptions into ledgers, and the retry queue into retry entries'
    union all
    select 60, 'create schemas pgmq, pgq_coop and sluice' where to_regnamespace('pgmq') is null
)
select s.line
from step as s
order by s.position, s.line collate "C";
