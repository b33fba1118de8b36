-- Collects the objects of PGMQ 0.20 in temporary tables that the other steps read. Changes nothing else.
create temporary table adopted_old_extension on commit drop as
select e.oid, e.extversion, e.extowner
from pg_extension as e
join pg_namespace as n on n.oid = e.extnamespace
where e.extname = 'pgmq' and n.nspname <> 'pgmq' and e.extversion ~ E'^0\\.';

create temporary table adopted_old_queue (
    queue_name text,
    created_at timestamptz,
    queue_oid oid,
    archive_oid oid,
    is_partitioned boolean,
    is_unlogged boolean
) on commit drop;

do $$
declare
    v_has_meta constant boolean := exists (
        select from pg_class as c where c.oid = to_regclass('public.pgmq_meta') and c.relkind in ('r', 'p')
    );
begin
    if v_has_meta and has_table_privilege('public.pgmq_meta', 'select') then
        insert into adopted_old_queue (queue_name, created_at, queue_oid)
        select m.queue_name, m.created_at, to_regclass(format('public.%I', lower('pgmq_' || m.queue_name)::name))
        from public.pgmq_meta as m;
    end if;

    -- Tables without a row in pgmq_meta: members of the extension, and all if there is no pgmq_meta.
    with
    old_table as (
        select c.oid, c.relname::text as name,
            exists (
                select
                from pg_depend as d
                join adopted_old_extension as e on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
                where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
            ) as is_member
        from pg_class as c
        where c.relnamespace = 'public'::regnamespace
          and c.relkind in ('r', 'p')
          and not c.relispartition
          and c.relname ~ '^pgmq_'
          and (
            select count(*)
            from pg_attribute as a
            where a.attrelid = c.oid and not a.attisdropped and a.attname in ('msg_id', 'read_ct', 'enqueued_at', 'vt', 'message')
          ) = 5
    )
    insert into adopted_old_queue (queue_name, queue_oid)
    select substr(t.name, 6), t.oid
    from old_table as t
    where not exists (select from adopted_old_queue as q where q.queue_oid = t.oid)
      and (
        t.is_member
        or not v_has_meta and exists (select from old_table as a where a.name = (t.name || '_archive')::name::text)
      )
      and not exists (
        select
        from old_table as owned
        where t.name = (owned.name || '_archive')::name::text
      );

    update adopted_old_queue as q
    set archive_oid = to_regclass(format('public.%I', (c.relname || '_archive')::name)),
        is_partitioned = c.relkind = 'p' or exists (
            select
            from pg_class as a
            where a.oid = to_regclass(format('public.%I', (c.relname || '_archive')::name)) and a.relkind = 'p'
        ),
        is_unlogged = c.relpersistence = 'u'
    from pg_class as c
    where c.oid = q.queue_oid;
end;
$$;

-- PGMQ's functions: the members of the extension, and those with the signatures of its names. Where those of pgsluice are
-- installed, the latter are these.
create temporary table adopted_old_function on commit drop as
select p.oid, p.oid::regprocedure::text as signature, p.proowner
from pg_proc as p
where exists (
        select
        from pg_depend as d
        join adopted_old_extension as e on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
        where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
    )
    or p.pronamespace = 'public'::regnamespace
      and p.oid in (
        select to_regprocedure(signature)
        from unnest(current_setting('sluice.functions_here')::text[]) as signature
        where signature ~ E'^public\\.'
      )
      and current_setting('sluice.has_legacy') = 'false';

create temporary table adopted_old_object on commit drop as
select 'extension' as kind, 'pgmq' as name, e.extowner as owner
from adopted_old_extension as e
union all
select 'function', f.signature, f.proowner
from adopted_old_function as f
union all
select 'table', format('public.%I', c.relname), c.relowner
from pg_class as c
where c.oid = to_regclass('public.pgmq_meta') and c.relkind in ('r', 'p')
   or c.oid in (select q.queue_oid from adopted_old_queue as q union all select q.archive_oid from adopted_old_queue as q);

insert into adopted_table
select o.name
from adopted_old_object as o
where o.kind = 'table';

-- Roles that used the tables through PGMQ's functions, which run with the rights of their caller.
create temporary table adopted_old_role on commit drop as
select r.rolname, bool_or(t.is_owner) as is_owner
from (
    select c.relowner as role_oid, true as is_owner, c.oid from pg_class as c
    union all
    select a.grantee, false, c.oid from pg_class as c cross join lateral aclexplode(c.relacl) as a
) as t
join pg_roles as r on r.oid = t.role_oid
where t.oid in (select q.queue_oid from adopted_old_queue as q)
  and not r.rolsuper
  and r.rolname !~ '^pg_'
group by r.rolname;
