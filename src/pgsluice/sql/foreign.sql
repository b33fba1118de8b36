/*
 * Objects in our schemas, or with a name of the older functions, that are not part of this release: the object, the
 * reason, the way out, and true if the installer refuses to run while it exists.
 *
 * It refuses objects that could run code of other roles with the installer's rights: an overload that matches a call
 * better, a view or a type with a name of ours. The owner of the schemas, roles that can become it, and superusers are
 * trusted. Tables are listed only: the installer does not write to a queue's tables.
 *
 * Parameter: the signatures of the functions of this release.
 */
with
ours as (
    select n.oid, n.nspname, n.nspowner, n.nspacl
    from pg_catalog.pg_namespace as n
    where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
),
released as (
    select pg_catalog.to_regprocedure(signature) as oid
    from pg_catalog.unnest(%s::text[]) as signature
),
older_names as (
    select p.oid, p.proowner, s.nspowner
    from pg_catalog.pg_proc as p
    cross join ours as s
    where s.nspname = 'sluice'
      and p.pronamespace = pg_catalog.to_regnamespace('public')
      and p.proname in (
        'pgmq_archive', 'pgmq_create', 'pgmq_create_non_partitioned', 'pgmq_create_partitioned', 'pgmq_delete',
        'pgmq_drop_queue', 'pgmq_list_queues', 'pgmq_metrics', 'pgmq_metrics_all', 'pgmq_pop', 'pgmq_read',
        'pgmq_read_with_poll', 'pgmq_send', 'pgmq_send_batch', 'pgmq_set_vt'
      )
      and exists (select from sluice.migration as m where m.version ~ '^legacy/')
),
-- Objects of kinds that no release creates, in all schemas.
kind (classid, oid, owner, namespace) as (
    select 'pg_catalog.pg_operator'::regclass, o.oid, o.oprowner, o.oprnamespace from pg_catalog.pg_operator as o
    union all
    select 'pg_catalog.pg_opclass'::regclass, o.oid, o.opcowner, o.opcnamespace from pg_catalog.pg_opclass as o
    union all
    select 'pg_catalog.pg_collation'::regclass, c.oid, c.collowner, c.collnamespace from pg_catalog.pg_collation as c
    union all
    select 'pg_catalog.pg_conversion'::regclass, c.oid, c.conowner, c.connamespace from pg_catalog.pg_conversion as c
),
-- The functions of one queue and of one log are named after it.
object (classid, objid, owner, schema_owner, is_released, is_code, named_pgmq) as (
    select 'pg_catalog.pg_proc'::regclass, p.oid, p.proowner, s.nspowner,
        p.oid in (select r.oid from released as r where r.oid is not null)
            or s.nspname = 'pgmq' and p.proname ~ '^q_'
                and pg_catalog.oidvectortypes(p.proargtypes) = 'timestamp with time zone, interval, integer, jsonb, boolean'
            or s.nspname = 'pgmq' and p.proname ~ '^a_'
                and pg_catalog.oidvectortypes(p.proargtypes) = 'bigint, integer, timestamp with time zone, boolean'
            or s.nspname = 'pgq' and p.proname ~ '^(event|tick)_[0-9]+_',
        true, s.nspname = 'pgmq'
    from pg_catalog.pg_proc as p
    join ours as s on s.oid = p.pronamespace
    union all
    select 'pg_catalog.pg_proc'::regclass, o.oid, o.proowner, o.nspowner,
        o.oid in (select r.oid from released as r where r.oid is not null), true, false
    from older_names as o
    union all
    -- Tables, sequences and their indexes run no code.
    select 'pg_catalog.pg_class'::regclass, c.oid, c.relowner, s.nspowner, true,
        c.relkind not in ('r', 'p', 'S') or s.nspname <> 'pgmq', s.nspname = 'pgmq'
    from pg_catalog.pg_class as c
    join ours as s on s.oid = c.relnamespace
    where c.relkind not in ('i', 'I', 'c')
      -- A sequence of a column belongs to its table.
      and not exists (
        select
        from pg_catalog.pg_depend as d
        where d.classid = 'pg_catalog.pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i') and c.relkind = 'S'
      )
      -- A partition belongs to its partitioned table.
      and not c.relispartition
    union all
    -- The row type of a table and its array type belong to the table.
    select 'pg_catalog.pg_type'::regclass, t.oid, t.typowner, s.nspowner, true, true, s.nspname = 'pgmq'
    from pg_catalog.pg_type as t
    join ours as s on s.oid = t.typnamespace
    left join pg_catalog.pg_class as c on c.oid = t.typrelid
    where (c.relkind = 'c' or c.oid is null)
      and not exists (select from pg_catalog.pg_type as e where e.typarray = t.oid)
    union all
    select k.classid, k.oid, k.owner, s.nspowner, true, true, s.nspname = 'pgmq'
    from kind as k
    join ours as s on s.oid = k.namespace
),
finding (what, why, hint, is_refused) as (
    select
        pg_catalog.format('%%s %%s', i.type, i.identity),
        case
            when not t.is_trusted then
                pg_catalog.format('belongs to %%s', pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(o.owner)))
            else 'is none of this release'
        end,
        case
            -- Dropping it would drop rows.
            when c.relkind in ('r', 'p', 'S', 'm', 'f') then pg_catalog.format(
                'if it is one of pgsluice, give it back with: alter %%1$s %%2$s owner to %%3$s; if not, move it to another schema with: '
                'alter %%1$s %%2$s set schema public', i.type, i.identity, pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(o.schema_owner))
            )
            when i.type in ('function', 'procedure', 'aggregate') and o.is_released then pg_catalog.format(
                'drop %%s %%s, and let `pgsluice schema upgrade` create it again', i.type, i.identity
            )
            else pg_catalog.format('drop %%s %%s', i.type, i.identity)
        end,
        not t.is_trusted
    from object as o
    left join pg_catalog.pg_class as c on o.classid = 'pg_catalog.pg_class'::regclass and c.oid = o.objid
    cross join lateral (select pg_catalog.pg_has_role(o.owner, o.schema_owner, 'member')) as t (is_trusted)
    cross join lateral pg_catalog.pg_identify_object(o.classid, o.objid, 0) as i
    where o.is_code and not (t.is_trusted and o.is_released)
    union all
    select
        pg_catalog.format('table %%s', i.identity),
        pg_catalog.format(
            'belongs to %%s: functions that change it refuse', pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(o.owner))
        ),
        pg_catalog.format(
            'alter table %%s owner to %%s', i.identity, pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(o.schema_owner))
        ),
        false
    from object as o
    join pg_catalog.pg_class as c on o.classid = 'pg_catalog.pg_class'::regclass and c.oid = o.objid
    cross join lateral pg_catalog.pg_identify_object(o.classid, o.objid, 0) as i
    where o.named_pgmq and c.relkind in ('r', 'p') and o.owner <> o.schema_owner
    union all
    select
        pg_catalog.format('create on schema %%I', s.nspname),
        pg_catalog.format('is granted to %%s', g.name),
        pg_catalog.format('revoke create on schema %%I from %%s', s.nspname, g.name),
        false
    from ours as s
    cross join lateral pg_catalog.aclexplode(s.nspacl) as a
    cross join lateral (
        select case when a.grantee = 0 then 'public' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end
    ) as g (name)
    where a.privilege_type = 'CREATE'
      and (a.grantee = 0 or not pg_catalog.pg_has_role(a.grantee, s.nspowner, 'member'))
)
select f.what, f.why, f.hint, f.is_refused
from finding as f
order by f.is_refused desc, f.what collate "C", f.why collate "C";
