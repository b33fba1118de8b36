-- The catalog of our schemas, and of PGMQ's older names, as sorted lines of text. Tables and functions of users'
-- queues and logs are left out: they are data. So is the content of the ledger, whose completeness is checked elsewhere.
--
-- Rights are normalised: a null acl stands for PostgreSQL's defaults, and a restored dump may list rights in another order.
with
ours as (
    select n.oid, n.nspname, n.nspowner, n.nspacl
    from pg_catalog.pg_namespace as n
    where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
),
relation as (
    select c.*, ours.nspname
    from pg_catalog.pg_class as c
    join ours on ours.oid = c.relnamespace
    where not (ours.nspname = 'pgmq' and c.relname ~ '^(q_|a_|archived_at_idx_)')
      and not (ours.nspname = 'pgq' and c.relname ~ '^(event|tick)_[0-9]+')
      and not (ours.nspname = 'sluice' and c.relname ~ '^stage_[0-9]+$')
    union all
    select c.*, 'public'
    from pg_catalog.pg_class as c
    where c.oid = pg_catalog.to_regclass('public.pgmq_meta') and c.relkind = 'v'
),
line (kind, name, content) as (
    select 'schema', nspname::text,
        pg_catalog.format('owner %s acl %s', pg_catalog.pg_get_userbyid(nspowner), acl.items)
    from ours
    cross join lateral (
        select pg_catalog.string_agg(a::text, ' ' order by a::text collate "C")
        from pg_catalog.unnest(coalesce(nspacl, pg_catalog.acldefault('n', nspowner))) as a
    ) as acl (items)
    union all
    select 'relation', pg_catalog.format('%I.%I', nspname, relname),
        pg_catalog.format(
            'kind %s persistence %s owner %s acl %s comment %s', relkind, relpersistence,
            pg_catalog.pg_get_userbyid(relowner), acl.items, pg_catalog.obj_description(oid, 'pg_class')
        )
    from relation
    cross join lateral (
        select pg_catalog.string_agg(a::text, ' ' order by a::text collate "C")
        from pg_catalog.unnest(
            coalesce(relacl, pg_catalog.acldefault(case relkind when 'S' then 's' else 'r' end::"char", relowner))
        ) as a
        where relkind not in ('i', 'I', 'c')
    ) as acl (items)
    union all
    select 'column', pg_catalog.format('%I.%I.%I', nspname, relname, a.attname),
        pg_catalog.format(
            'position %s type %s not null %s identity %s generated %s default %s acl %s', a.attnum,
            pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
            pg_catalog.pg_get_expr(d.adbin, d.adrelid), acl.items
        )
    from relation
    join pg_catalog.pg_attribute as a on a.attrelid = relation.oid and a.attnum > 0 and not a.attisdropped
    left join pg_catalog.pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
    cross join lateral (
        select pg_catalog.string_agg(i::text, ' ' order by i::text collate "C") from pg_catalog.unnest(a.attacl) as i
    ) as acl (items)
    where relation.relkind in ('r', 'c', 'v', 'p')
    union all
    select 'index', pg_catalog.format('%I.%I', nspname, relname), pg_catalog.pg_get_indexdef(oid)
    from relation
    where relkind = 'i'
    union all
    select 'constraint', pg_catalog.format('%I.%I.%I', nspname, relname, k.conname),
        pg_catalog.pg_get_constraintdef(k.oid)
    from relation
    join pg_catalog.pg_constraint as k on k.conrelid = relation.oid
    union all
    select 'trigger', pg_catalog.format('%I.%I.%I', nspname, relname, t.tgname), pg_catalog.pg_get_triggerdef(t.oid)
    from relation
    join pg_catalog.pg_trigger as t on t.tgrelid = relation.oid and not t.tgisinternal
    union all
    select 'function', pg_catalog.format('%I.%I(%s)', n.nspname, p.proname, pg_catalog.oidvectortypes(p.proargtypes)),
        pg_catalog.format(
            'owner %s acl %s comment %s %s', pg_catalog.pg_get_userbyid(p.proowner), acl.items,
            pg_catalog.obj_description(p.oid, 'pg_proc'), pg_catalog.pg_get_functiondef(p.oid)
        )
    from pg_catalog.pg_proc as p
    join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
    cross join lateral (
        select pg_catalog.string_agg(a::text, ' ' order by a::text collate "C")
        from pg_catalog.unnest(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) as a
    ) as acl (items)
    where n.oid in (select ours.oid from ours)
          and not (n.nspname = 'pgmq' and p.proname ~ '^[qa]_')
          and not (n.nspname = 'pgq' and p.proname ~ '^(event|tick)_[0-9]+_')
       or n.nspname = 'public' and p.proname ~ '^pgmq_' and p.prokind = 'f'
    union all
    select 'default grant', ours.nspname::text,
        pg_catalog.format('for %s on %s acl %s', pg_catalog.pg_get_userbyid(a.defaclrole), a.defaclobjtype, acl.items)
    from pg_catalog.pg_default_acl as a
    cross join lateral (
        select pg_catalog.string_agg(i::text, ' ' order by i::text collate "C") from pg_catalog.unnest(a.defaclacl) as i
    ) as acl (items)
    join ours on ours.oid = a.defaclnamespace
)
select pg_catalog.concat_ws(' ', kind, name, content)
from line
order by kind collate "C", name collate "C", content collate "C";
