-- User objects that `drop schema ... cascade` would drop: one row per object outside our schemas that depends on one
-- inside, and per user object inside. Includes triggers that sluice.capture or a user of a log created on a table.
with
ours as (
    select n.oid from pg_catalog.pg_namespace as n where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
),
inside (classid, objid) as (
    select 'pg_catalog.pg_class'::regclass, c.oid from pg_catalog.pg_class as c where c.relnamespace in (select o.oid from ours as o)
    union all
    select 'pg_catalog.pg_proc'::regclass, p.oid from pg_catalog.pg_proc as p where p.pronamespace in (select o.oid from ours as o)
    union all
    select 'pg_catalog.pg_type'::regclass, t.oid from pg_catalog.pg_type as t where t.typnamespace in (select o.oid from ours as o)
    union all
    select 'pg_catalog.pg_constraint'::regclass, k.oid
    from pg_catalog.pg_constraint as k
    where k.connamespace in (select o.oid from ours as o)
),
dependent (classid, objid, objsubid) as (
    select distinct
        case when w.oid is not null then 'pg_catalog.pg_class'::regclass else d.classid::regclass end,
        coalesce(w.ev_class, d.objid),
        case when w.oid is not null then 0 else d.objsubid end
    from pg_catalog.pg_depend as d
    join inside as i on i.classid = d.refclassid and i.objid = d.refobjid
    left join pg_catalog.pg_rewrite as w on d.classid = 'pg_catalog.pg_rewrite'::regclass and w.oid = d.objid
    where d.deptype in ('n', 'a')
)
select i.type, i.identity
from dependent as d
cross join lateral pg_catalog.pg_identify_object(d.classid, d.objid, d.objsubid) as i
left join pg_catalog.pg_trigger as t on d.classid = 'pg_catalog.pg_trigger'::regclass and t.oid = d.objid
left join pg_catalog.pg_constraint as k on d.classid = 'pg_catalog.pg_constraint'::regclass and k.oid = d.objid
left join pg_catalog.pg_attrdef as a on d.classid = 'pg_catalog.pg_attrdef'::regclass and a.oid = d.objid
left join pg_catalog.pg_policy as p on d.classid = 'pg_catalog.pg_policy'::regclass and p.oid = d.objid
left join pg_catalog.pg_class as c
    on c.oid = coalesce(
        t.tgrelid, k.conrelid, a.adrelid, p.polrelid,
        case when d.classid = 'pg_catalog.pg_class'::regclass then d.objid end
    )
left join pg_catalog.pg_proc as f on d.classid = 'pg_catalog.pg_proc'::regclass and f.oid = d.objid
left join pg_catalog.pg_type as y on d.classid = 'pg_catalog.pg_type'::regclass and y.oid = d.objid
where coalesce(c.relnamespace, f.pronamespace, y.typnamespace) not in (select o.oid from ours as o)
  and coalesce(c.relkind, 'r') <> 't'
  and not coalesce(t.tgisinternal, false)
  -- The row type of a view is dropped with the view.
  and not (y.oid is not null and y.typrelid <> 0)
  -- The older names are ours, and dropped first.
  and coalesce(f.proname, '') !~ '^pgmq_'
  and not coalesce(
    c.oid = pg_catalog.to_regclass('public.pgmq_meta')
        and c.relkind = 'v'
        and pg_catalog.obj_description(c.oid, 'pg_class') ~ 'PGMQ 0.20''s name of',
    false
  )
order by 1, 2;
