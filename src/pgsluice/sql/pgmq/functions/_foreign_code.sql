/*
 * Code that runs when a row of the table is written or its indexes are built: triggers, rules, foreign keys and
 * expressions whose functions, operators or types belong to an untrusted role. Trusted are the owner of the schemas,
 * the roles that can become it, and superusers.
 *
 * Reads: the catalog.
 */
create or replace function pgmq._foreign_code(queue_table regclass)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    with
    part as (
        select t.relid::oid as oid from pg_partition_tree(queue_table) as t
        union
        select queue_table::oid
    ),
    untrusted as (
        select r.oid
        from pg_roles as r
        where not pg_has_role(r.oid, (select n.nspowner from pg_namespace as n where n.nspname = 'pgmq'), 'member')
    ),
    expression (classid, objid) as (
        select 'pg_class'::regclass, p.oid from part as p
        union all
        select 'pg_class'::regclass, i.indexrelid from pg_index as i where i.indrelid in (select p.oid from part as p)
        union all
        select 'pg_attrdef'::regclass, d.oid from pg_attrdef as d where d.adrelid in (select p.oid from part as p)
        union all
        select 'pg_constraint'::regclass, k.oid from pg_constraint as k where k.conrelid in (select p.oid from part as p)
        union all
        select 'pg_policy'::regclass, p.oid from pg_policy as p where p.polrelid in (select p.oid from part as p)
    ),
    used as (
        select e.classid, e.objid, d.refclassid, d.refobjid
        from expression as e
        join pg_depend as d on d.classid = e.classid and d.objid = e.objid
    ),
    finding (name) as (
        select format('trigger %I on %s', t.tgname, t.tgrelid::regclass)
        from pg_trigger as t
        join pg_proc as p on p.oid = t.tgfoid
        where t.tgrelid in (select p.oid from part as p)
          and not t.tgisinternal
          and p.proowner in (select u.oid from untrusted as u)
        union
        select format('rule %I on %s', w.rulename, w.ev_class::regclass)
        from pg_rewrite as w
        where w.ev_class in (select p.oid from part as p)
        union
        select format('foreign key %I on %s', k.conname, k.conrelid::regclass)
        from pg_constraint as k
        where k.contype = 'f' and k.conrelid in (select p.oid from part as p)
        union
        select pg_describe_object(o.classid, o.oid, 0)
        from used as u
        join (
            select 'pg_proc'::regclass as classid, p.oid, p.proowner as owner from pg_proc as p
            union all
            select 'pg_operator'::regclass, p.oid, p.oprowner from pg_operator as p
            union all
            select 'pg_opclass'::regclass, p.oid, p.opcowner from pg_opclass as p
            union all
            select 'pg_type'::regclass, p.oid, p.typowner from pg_type as p
        ) as o on o.classid = u.refclassid and o.oid = u.refobjid
        where o.owner in (select u.oid from untrusted as u)
    )
    select string_agg(f.name, ', ' order by f.name) from finding as f;
$$;

comment on function pgmq._foreign_code(regclass) is
    'Triggers and expressions of a table that run an untrusted role''s code; null if there are none.';
revoke execute on function pgmq._foreign_code(regclass) from public;
grant execute on function pgmq._foreign_code(regclass) to sluice_admin;
