-- Collects PGMQ's objects, and the action for each, in temporary tables that the other steps read. Changes nothing
-- else.
create temporary table adopted_extension on commit drop as
select e.oid, e.extversion, e.extowner
from pg_extension as e
where e.extname = 'pgmq';

create temporary table adopted_relation on commit drop as
select c.oid
from pg_class as c
where c.relnamespace = 'pgmq'::regnamespace;

-- Between versions PGMQ appended attributes to a type or inserted them in the middle. If they are appended, the type
-- can stay.
create temporary table adopted_type on commit drop as
select
    t.oid,
    t.typarray,
    t.typrelid,
    wanted.name,
    there.attributes,
    wanted.attributes[cardinality(there.attributes) + 1 :] as missing,
    case
        when there.attributes = wanted.attributes then 'keep'
        when there.attributes = wanted.attributes[: cardinality(there.attributes)] then 'extend'
        else 'replace'
    end as action
from jsonb_each(current_setting('sluice.types_here')::jsonb) as here (name, attributes)
cross join lateral (
    select
        here.name,
        array_agg(
            format('%I %s', split_part(a.line, ' ', 1), format_type(to_regtype(split_part(a.line, ' ', 2)), null))
            order by a.position
        ) as attributes
    from jsonb_array_elements_text(here.attributes) with ordinality as a (line, position)
) as wanted
join pg_type as t on t.typnamespace = 'pgmq'::regnamespace and t.typname = wanted.name and t.typtype = 'c'
cross join lateral (
    select array_agg(format('%I %s', a.attname, format_type(a.atttypid, null)) order by a.attnum) as attributes
    from pg_attribute as a
    where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
) as there;

-- Every function in the schema: replaced in place, dropped (and perhaps created again), or kept because it is not
-- PGMQ's.
create temporary table adopted_function on commit drop as
with
here as (
    select to_regprocedure(signature) as oid
    from unnest(current_setting('sluice.functions_here')::text[]) as signature
),
-- Functions of PGMQ versions from 1.5 on that this release does not have in this form.
gone as (
    select to_regprocedure(signature) as oid
    from unnest(array[
        'pgmq._belongs_to_pgmq(text)',
        'pgmq._create_fifo_index_if_not_exists(text)',
        'pgmq._ensure_pg_partman_installed()',
        'pgmq._extension_exists(text)',
        'pgmq._get_partition_col(text)',
        'pgmq._get_pg_partman_major_version()',
        'pgmq._get_pg_partman_schema()',
        'pgmq._send_batch(text, jsonb[], jsonb[], timestamptz)',
        'pgmq.convert_archive_partitioned(text, text, text, integer)',
        'pgmq.create_partitioned(text, text, text)',
        'pgmq.create_partitioned(text, text, text, integer)',
        'pgmq.enable_notify_insert(text)',
        'pgmq.pop(text)',
        'pgmq.read_fifo(text, integer, integer, jsonb)',
        'pgmq.read_fifo_sqs_style(text, integer, integer, jsonb)',
        'pgmq.read_fifo_sqs_style_with_poll(text, integer, integer, integer, integer, jsonb)',
        'pgmq.read_fifo_with_poll(text, integer, integer, integer, integer, jsonb)'
    ]) as signature
)
select
    p.oid,
    p.proname,
    p.oid::regprocedure::text as signature,
    p.proowner,
    coalesce(p.proacl, acldefault('f', p.proowner)) as acl,
    here.oid is not null as is_ours,
    case
        when here.oid is null and gone.oid is null and member.objid is null then 'keep'
        when here.oid is null then 'drop'
        when exists (
            select
            from pg_depend as d
            join adopted_type as t on d.refobjid in (t.oid, t.typarray) and t.action = 'replace'
            where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.refclassid = 'pg_type'::regclass
        ) then 'drop'
        else 'replace'
    end as action
from pg_proc as p
left join here on here.oid = p.oid
left join gone on gone.oid = p.oid
left join pg_depend as member
    on member.classid = 'pg_proc'::regclass
    and member.objid = p.oid
    and member.deptype = 'e'
    and member.refobjid = (select e.oid from adopted_extension as e)
where p.pronamespace = 'pgmq'::regnamespace;

create temporary table adopted_queue (
    queue_name text,
    queue_table name,
    queue_oid oid,
    archive_oid oid,
    is_partitioned boolean,
    is_unlogged boolean,
    has_unlogged_ids boolean,
    has_gin boolean,
    has_trigger boolean,
    throttle_interval_ms integer,
    columns_missing integer
) on commit drop;

do $$
begin
    -- If these columns or the right to read them are missing, objections.sql reports it.
    if not coalesce(has_table_privilege(to_regclass('pgmq.meta'), 'select'), false) or (
        select count(*)
        from pg_attribute as a
        where a.attrelid = to_regclass('pgmq.meta')
          and a.attname in ('queue_name', 'is_partitioned', 'is_unlogged')
          and not a.attisdropped
    ) < 3 then
        return;
    end if;
    insert into adopted_queue (queue_name, queue_table, queue_oid, archive_oid, is_partitioned, is_unlogged)
    select
        m.queue_name,
        lower('q_' || m.queue_name)::name,
        to_regclass(format('pgmq.%I', lower('q_' || m.queue_name)::name)),
        to_regclass(format('pgmq.%I', lower('a_' || m.queue_name)::name)),
        m.is_partitioned,
        m.is_unlogged
    from pgmq.meta as m;

    update adopted_queue as q
    set has_unlogged_ids = exists (
            select
            from pg_class as c
            where c.oid = to_regclass(format('pgmq.%I', q.queue_table || '_msg_id_seq')) and c.relpersistence = 'u'
        ),
        has_gin = exists (
            select
            from pg_class as c
            join pg_am as a on a.oid = c.relam and a.amname = 'gin'
            where c.oid = to_regclass(format('pgmq.%I', q.queue_table || '_fifo_idx'))
        ),
        has_trigger = exists (
            select
            from pg_trigger as t
            where t.tgrelid = q.queue_oid and t.tgname = 'trigger_notify_queue_insert_listeners'
        ),
        columns_missing = (
            select count(*)
            from (values (q.queue_oid), (q.archive_oid)) as t (oid)
            cross join (values ('headers'), ('last_read_at')) as wanted (name)
            where t.oid is not null
              and not exists (
                select from pg_attribute as a
                where a.attrelid = t.oid and a.attname = wanted.name and not a.attisdropped
              )
        );

    -- Before PGMQ had a throttle, every insert notified. Since then, a trigger without a row is left over from a crash.
    update adopted_queue as q set throttle_interval_ms = 0 where q.has_trigger;
    if has_table_privilege(to_regclass('pgmq.notify_insert_throttle'), 'select') then
        update adopted_queue as q
        set throttle_interval_ms = coalesce(
            (select t.throttle_interval_ms from pgmq.notify_insert_throttle as t where t.queue_name = q.queue_name), 250
        )
        where q.has_trigger;
    end if;
end;
$$;

-- Execute rights. Functions that PUBLIC may execute can be called by every role that may use the schema.
create temporary table adopted_grant on commit drop as
with
may_use as (
    select distinct a.grantee as role_oid
    from pg_namespace as n
    cross join lateral aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) as a
    where n.nspname = 'pgmq' and a.privilege_type = 'USAGE' and a.grantee <> 0
),
may_call as (
    select distinct coalesce(u.role_oid, a.grantee) as role_oid, f.oid, f.proname
    from adopted_function as f
    cross join lateral aclexplode(f.acl) as a
    left join may_use as u on a.grantee = 0
    where f.action <> 'keep'
)
select
    r.rolname,
    has_schema_privilege(r.oid, 'pgmq', 'create') as may_create,
    array_agg(distinct c.proname) as function_names,
    count(*) = (select count(*) from adopted_function as f where f.action <> 'keep') as all_of_them
from may_call as c
join pg_roles as r on r.oid = c.role_oid
where not r.rolsuper
group by r.rolname, r.oid;

-- Every object in the schema that changes, with its owner.
create temporary table adopted_object on commit drop as
select 'schema' as kind, n.nspname::text as name, n.nspowner as owner
from pg_namespace as n
where n.nspname = 'pgmq'
union all
select 'extension', 'pgmq', e.extowner
from adopted_extension as e
union all
select 'function', f.signature, f.proowner
from adopted_function as f
where f.action <> 'keep'
union all
select 'type', t.name, (select c.typowner from pg_type as c where c.oid = t.oid)
from adopted_type as t
union all
select 'table', c.relname, c.relowner
from pg_class as c
where c.relnamespace = 'pgmq'::regnamespace
  and (
    c.relname in ('meta', 'notify_insert_throttle', 'topic_bindings')
    or c.oid in (select q.queue_oid from adopted_queue as q union all select q.archive_oid from adopted_queue as q)
  );

insert into adopted_table
select format('pgmq.%I', o.name)
from adopted_object as o
where o.kind = 'table';
