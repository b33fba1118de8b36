-- Reasons why PGMQ 0.20 cannot be adopted, each with its way out.
with
going as (
    select 'pg_proc'::regclass as classid, f.oid as objid from adopted_old_function as f
    union all
    select 'pg_class'::regclass, c.oid
    from pg_class as c
    where c.oid = to_regclass('public.pgmq_meta') and c.relkind in ('r', 'p')
),
dependent as (
    select distinct
        case
            when d.classid = 'pg_rewrite'::regclass then pg_describe_object(
                'pg_class'::regclass, (select w.ev_class from pg_rewrite as w where w.oid = d.objid), 0
            )
            else pg_describe_object(d.classid, d.objid, d.objsubid)
        end as name,
        pg_describe_object(d.refclassid, d.refobjid, 0) as needs
    from pg_depend as d
    join going as g on g.classid = d.refclassid and g.objid = d.refobjid
    where d.deptype = 'n'
      and not exists (select from going as o where o.classid = d.classid and o.objid = d.objid)
),
objection (position, what, hint) as (
    select 1, format('extension %I needs the extension pgmq', x.extname),
        format('drop extension %I, adopt, and create it again if it works without', x.extname)
    from pg_depend as d
    join adopted_old_extension as e on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
    join pg_extension as x on d.classid = 'pg_extension'::regclass and d.objid = x.oid
    union all
    select 2,
        format(
            '%s of %s belong to %I, whose rights %I does not have',
            count(*), string_agg(distinct o.kind, ', '), pg_get_userbyid(o.owner), current_user
        ),
        format('adopt as %I or as a superuser', pg_get_userbyid(o.owner))
    from adopted_old_object as o
    where not pg_has_role(o.owner, 'usage')
    group by o.owner
    union all
    select 3, format('%I may not create schemas in database %I', current_user, current_database()),
        format('grant create on database %I to %I', current_database(), current_user)
    where to_regclass('sluice.migration') is null and not has_database_privilege(current_database(), 'create')
    union all
    select 4, format('%s depends on %s, which adoption replaces', d.name, string_agg(d.needs, ', ' order by d.needs)),
        'drop it, adopt, and create it again'
    from dependent as d
    group by d.name
    union all
    select 5, format('queue %L exists in schema pgmq too', q.queue_name),
        format(
            'rename one: alter table %s rename to ..., the same for its archive, and its row in public.pgmq_meta', q.queue_oid::regclass
        )
    from adopted_old_queue as q
    where q.queue_oid is not null
      and (
        to_regclass(format('pgmq.%I', lower('q_' || q.queue_name))) is not null
        or to_regclass(format('pgmq.%I', lower('a_' || q.queue_name))) is not null
      )
    union all
    select 6, format('queues %s share the table %s', string_agg(quote_literal(q.queue_name), ' and '), q.queue_oid::regclass),
        'keep the name that your clients use, and delete the other rows from public.pgmq_meta: the messages stay'
    from adopted_old_queue as q
    where q.queue_oid is not null
    group by q.queue_oid
    having count(*) > 1
    union all
    select 7, format('queue name %L is empty, longer than 47 bytes or has invalid characters', q.queue_name),
        'rename its two tables, which keeps the messages, and its row in public.pgmq_meta'
    from adopted_old_queue as q
    where q.queue_oid is not null
      and (q.queue_name = '' or octet_length(q.queue_name) > 47 or q.queue_name ~ E'[[:cntrl:]]|\\$|;|--|''')
    union all
    select 8, format('queue %L is partitioned by pg_partman', q.queue_name),
        format(
            'copy both tables to plain ones, for each: alter extension pgmq drop table %1$s; alter table %1$s rename to old_...; '
            'create table %1$s as table public.old_...; and delete their rows from part_config. The old tables keep the rows '
            'until you drop them', q.queue_oid::regclass
        )
    from adopted_old_queue as q
    where q.is_partitioned
    union all
    select 9, format('the column public.pgmq_meta.%I is not PGMQ''s', a.attname),
        'copy it to a table of your own and drop the column: the table is replaced by a view'
    from pg_attribute as a
    where a.attrelid = to_regclass('public.pgmq_meta')
      and (select c.relkind from pg_class as c where c.oid = a.attrelid) in ('r', 'p')
      and a.attnum > 0
      and not a.attisdropped
      and a.attname not in ('queue_name', 'created_at', 'is_partitioned', 'is_unlogged')
    union all
    select 10, format('function %s has a name of PGMQ 0.20 and is not PGMQ''s', p.oid::regprocedure),
        format('rename it, or move it to another schema: alter function %s set schema ...', p.oid::regprocedure)
    from pg_proc as p
    where p.pronamespace = 'public'::regnamespace
      and p.proname in (
        select substring(signature from E'^public\\.(\\w+)')
        from unnest(current_setting('sluice.functions_here')::text[]) as signature
        where signature ~ E'^public\\.'
      )
      and current_setting('sluice.has_legacy') = 'false'
      and not exists (select from adopted_old_function as f where f.oid = p.oid)
)
select o.what, o.hint
from objection as o
order by o.position, o.what;
