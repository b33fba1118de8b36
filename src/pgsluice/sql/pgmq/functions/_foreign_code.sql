/*
 * Code that runs when a row of the table is written or its indexes are built: triggers, rules, foreign keys and
 * expressions whose functions, operators or types belong to a role that the current one does not trust: sluice._trusts.
 *
 * In PL/pgSQL, which keeps the plan: maintenance calls it for each table that it writes to. Reads: the catalog.
 */
create or replace function pgmq._foreign_code(queue_table regclass)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_runner constant oid := quote_ident(current_user)::regrole;
    -- An array, so that the plan uses indexes of the catalog.
    v_parts constant oid[] := array(
        select t.relid::oid from pg_partition_tree(queue_table) as t union select queue_table::oid
    );
    v_code text;
begin
    with
    expression (classid, objid) as (
        select 'pg_class'::regclass, p.oid from unnest(v_parts) as p (oid)
        union all
        select 'pg_class'::regclass, i.indexrelid from pg_index as i where i.indrelid = any (v_parts)
        union all
        select 'pg_attrdef'::regclass, d.oid from pg_attrdef as d where d.adrelid = any (v_parts)
        union all
        select 'pg_constraint'::regclass, k.oid from pg_constraint as k where k.conrelid = any (v_parts)
        union all
        select 'pg_policy'::regclass, p.oid from pg_policy as p where p.polrelid = any (v_parts)
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
        where t.tgrelid = any (v_parts)
          and not t.tgisinternal
          and not sluice._trusts(v_runner, p.proowner)
        union
        select format('rule %I on %s', w.rulename, w.ev_class::regclass)
        from pg_rewrite as w
        where w.ev_class = any (v_parts)
        union
        select format('foreign key %I on %s', k.conname, k.conrelid::regclass)
        from pg_constraint as k
        where k.contype = 'f' and k.conrelid = any (v_parts)
        union
        select pg_describe_object(u.refclassid, u.refobjid, 0)
        from used as u
        -- Built-in objects are not in pg_depend, so these are few.
        cross join lateral (
            select p.proowner from pg_proc as p where u.refclassid = 'pg_proc'::regclass and p.oid = u.refobjid
            union all
            select p.oprowner from pg_operator as p where u.refclassid = 'pg_operator'::regclass and p.oid = u.refobjid
            union all
            select p.opcowner from pg_opclass as p where u.refclassid = 'pg_opclass'::regclass and p.oid = u.refobjid
            union all
            select p.typowner from pg_type as p where u.refclassid = 'pg_type'::regclass and p.oid = u.refobjid
        ) as o (owner)
        where not sluice._trusts(v_runner, o.owner)
    )
    select string_agg(f.name, ', ' order by f.name) into v_code from finding as f;
    return v_code;
end;
$$;

comment on function pgmq._foreign_code(regclass) is
    'Triggers and expressions of a table that run an untrusted role''s code; null if there are none.';
revoke execute on function pgmq._foreign_code(regclass) from public;
grant execute on function pgmq._foreign_code(regclass) to sluice_admin;
