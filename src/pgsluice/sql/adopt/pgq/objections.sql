-- Reasons why PgQ's schema cannot be adopted, each with a way out.
with
wanting as (
    select format('pgq.%s has no column %s', c.table_name, c.name) as what
    from (values
        ('queue', 'queue_per_tx_limit'), ('queue', 'queue_extra_maint'), ('queue', 'queue_switch_step1'), ('tick', 'tick_event_seq'),
        ('subscription', 'sub_next_tick'), ('consumer', 'co_name'), ('retry_queue', 'ev_queue'), ('event_template', 'ev_txid')
    ) as c (table_name, name)
    where not exists (
        select
        from pg_attribute as a
        where a.attrelid = to_regclass('pgq.' || c.table_name) and a.attname = c.name and not a.attisdropped
    )
),
owned as (
    select 'table' as kind, c.relowner as owner
    from pg_class as c
    where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'S')
    union all
    select 'function', f.proowner from adopted_log_function as f where f.action <> 'keep'
    union all
    select 'schema', n.nspowner from pg_namespace as n where n.nspname = 'pgq'
    union all
    select 'extension', e.extowner from pg_extension as e where e.extname = 'pgq'
),
-- Tables whose columns change their type, and tables that become views.
dependent as (
    select distinct pg_describe_object('pg_class'::regclass, w.ev_class, 0) as name, c.oid::regclass::text as needs
    from pg_depend as d
    join pg_rewrite as w on d.classid = 'pg_rewrite'::regclass and w.oid = d.objid
    join pg_class as c on d.refclassid = 'pg_class'::regclass and c.oid = d.refobjid
    where c.relnamespace = 'pgq'::regnamespace
      and c.relkind = 'r'
      and c.relname ~ '^(subscription|retry_queue|tick|queue|event_.*)$'
      and w.ev_class <> c.oid
    union
    select pg_describe_object(d.classid, d.objid, 0), f.signature
    from pg_depend as d
    join adopted_log_function as f on d.refclassid = 'pg_proc'::regclass and d.refobjid = f.oid
    where f.action = 'drop' and d.deptype = 'n'
),
objection (position, what, hint) as (
    select 1, format('this is not PgQ 3.2 to 3.5: %s', string_agg(w.what, ', ' order by w.what)),
        'upgrade PgQ first, or move the schema out of the way: alter schema pgq rename to ...'
    from wanting as w
    having count(*) > 0
    union all
    select 2, format('the extension pgq is version %s', e.extversion),
        'this release adopts 3.2 to 3.5: upgrade PgQ first if it is older, pgsluice if it is newer'
    from pg_extension as e
    where e.extname = 'pgq' and e.extversion !~ E'^3\\.[2-5](\\.|$)'
    union all
    select 3, format('schema %I exists and was not created by pgsluice', n.nspname),
        format('move it out of the way: alter schema %I rename to ...', n.nspname)
    from pg_namespace as n
    where n.nspname = 'sluice' or n.nspname = 'pgq_coop'
    union all
    select 4, format('extension %I needs the extension pgq', x.extname),
        format('drop extension %I, adopt, and create it again if it works without', x.extname)
    from pg_depend as d
    join pg_extension as e on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid and e.extname = 'pgq'
    join pg_extension as x on d.classid = 'pg_extension'::regclass and d.objid = x.oid
    union all
    select 5,
        format(
            '%s of PgQ belong to %I, whose rights %I does not have',
            string_agg(distinct o.kind, ', '), pg_get_userbyid(o.owner), current_user
        ),
        format('adopt as %I or as a superuser', pg_get_userbyid(o.owner))
    from owned as o
    where not pg_has_role(o.owner, 'usage')
    group by o.owner
    union all
    select 6, format('%I may not create schemas in database %I', current_user, current_database()),
        format('grant create on database %I to %I', current_database(), current_user)
    where not has_database_privilege(current_database(), 'create')
    union all
    select 7, format('%s depends on %s, which adoption changes or drops', d.name, string_agg(d.needs, ', ' order by d.needs)),
        'save its definition, and the rows of a table; drop it, adopt, and create it again'
    from dependent as d
    group by d.name
    union all
    select 8, format('log %L has %s event tables instead of the %s in pgq.queue', l.queue_name, l.tables, q.queue_ntables),
        'restore its tables from a backup; to drop the log with pgq.drop_queue also drops the events of the tables that are there'
    from adopted_log as l
    join pgq.queue as q on q.queue_id = l.queue_id
    where l.tables <> q.queue_ntables
    union all
    select 12, format('function %s belongs to %I, who could run code with the installer''s rights through it', f.signature, r.rolname),
        format('drop it, or move it to another schema: alter function %s set schema ...', f.signature)
    from adopted_log_function as f
    join pg_roles as r on r.oid = f.proowner
    where f.action = 'keep' and not r.rolsuper and r.rolname <> current_user
)
select o.what, o.hint
from objection as o
order by o.position, o.what;
