-- Reasons why the schema cannot be adopted, each with a way out.
with
wanting as (
    select format('pgmq.meta has no column %s', c.name) as what
    from (values ('queue_name'), ('is_partitioned'), ('is_unlogged'), ('created_at')) as c (name)
    where not exists (
        select
        from pg_attribute as a
        where a.attrelid = to_regclass('pgmq.meta') and a.attname = c.name and not a.attisdropped
    )
    union all
    select format('type pgmq.%s is missing or has no attribute %s', c.type_name, c.name)
    from (values
        ('message_record', 'headers'), ('metrics_result', 'queue_visible_length'), ('queue_record', 'is_unlogged')
    ) as c (type_name, name)
    where not exists (
        select from adopted_type as t where t.name = c.type_name and format('%s', t.attributes) ~ (E'\\m' || c.name || E'\\M')
    )
),
-- Dropped objects and their dependents.
going as (
    select 'pg_proc'::regclass as classid, f.oid as objid
    from adopted_function as f
    where f.action = 'drop'
    union all
    select 'pg_type'::regclass, t.oid from adopted_type as t where t.action = 'replace'
    union all
    select 'pg_type'::regclass, t.typarray from adopted_type as t where t.action = 'replace'
    union all
    select 'pg_class'::regclass, t.typrelid from adopted_type as t where t.action = 'replace'
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
    where d.deptype <> 'e'
      and not exists (select from going as o where o.classid = d.classid and o.objid = d.objid)
),
version as (
    select e.extversion, (regexp_match(e.extversion, E'^([0-9]+)\\.([0-9]+)'))::integer[] as number
    from adopted_extension as e
),
objection (position, what, hint) as (
    select 1, format('this is not PGMQ 1.5 to 1.13: %s', string_agg(w.what, ', ' order by w.what)),
        'upgrade PGMQ to 1.5 or later first, or move the schema out of the way: alter schema pgmq rename to ...'
    from wanting as w
    having count(*) > 0
    union all
    select 2, format('the extension pgmq is version %s', v.extversion),
        'this release adopts 1.5 to 1.13: upgrade PGMQ first if it is older, pgsluice if it is newer'
    from version as v
    where v.number is null or not v.number between array[1, 5] and array[1, 13]
    union all
    select 3, format('schema %I exists and was not created by pgsluice', n.nspname),
        format('move it out of the way: alter schema %I rename to ...', n.nspname)
    from pg_namespace as n
    where n.nspname = 'sluice' or n.nspname in ('pgq', 'pgq_coop') and to_regclass('pgq.event_template') is null
    union all
    select 4, format('extension %I needs the extension pgmq', x.extname),
        format('drop extension %I, adopt, and create it again if it works without', x.extname)
    from pg_depend as d
    join adopted_extension as e on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
    join pg_extension as x on d.classid = 'pg_extension'::regclass and d.objid = x.oid
    union all
    select 5,
        format(
            '%s of %s belong to %I, whose rights %I does not have',
            count(*), string_agg(distinct o.kind, ', '), pg_get_userbyid(o.owner), current_user
        ),
        format('adopt as %I or as a superuser', pg_get_userbyid(o.owner))
    from adopted_object as o
    where not pg_has_role(o.owner, 'usage')
    group by o.owner
    union all
    select 6, format('%I may not create schemas in database %I', current_user, current_database()),
        format('grant create on database %I to %I', current_database(), current_user)
    where not has_database_privilege(current_database(), 'create')
    union all
    select 7, 'PUBLIC may use schema pgmq',
        'grant usage on it to the roles that call PGMQ, and revoke it from PUBLIC: our functions are granted to roles'
    from pg_namespace as n
    cross join lateral aclexplode(n.nspacl) as a
    where n.nspname = 'pgmq' and a.grantee = 0 and a.privilege_type = 'USAGE'
    union all
    select 8, format('%s depends on %s, which adoption changes or drops', d.name, string_agg(d.needs, ', ' order by d.needs)),
        'drop it, adopt, and create it again'
    from dependent as d
    group by d.name
    union all
    select 9, format('queues %s share the table pgmq.%I', string_agg(quote_literal(q.queue_name), ' and '), q.queue_table),
        'keep the name that your clients use, and delete the other rows from pgmq.meta: the messages stay'
    from adopted_queue as q
    group by q.queue_table
    having count(*) > 1
    union all
    select 10, format('queue name %L is empty or contains control characters', q.queue_name),
        'rename its tables, its sequence and its row in pgmq.meta, or drop the queue, its messages and its archive with PGMQ''s drop_queue'
    from adopted_queue as q
    where q.queue_name = '' or q.queue_name ~ '[[:cntrl:]]'
    union all
    select 11, format('queue name %L has %s bytes', q.queue_name, octet_length(q.queue_name)),
        'rename its tables, its sequence and its row in pgmq.meta to at most 47 bytes, or drop the queue, its messages and its archive with PGMQ''s drop_queue'
    from adopted_queue as q
    where octet_length(q.queue_name) > 47 or octet_length(lower(q.queue_name)) > 47
    union all
    select 12, format('function %s belongs to %I, who could run code with the installer''s rights through it', f.signature, r.rolname),
        format('drop it, or move it to another schema: alter function %s set schema ...', f.signature)
    from adopted_function as f
    join pg_roles as r on r.oid = f.proowner
    where f.action = 'keep' and not r.rolsuper and r.rolname <> current_user
)
select o.what, o.hint
from objection as o
order by o.position, o.what;
