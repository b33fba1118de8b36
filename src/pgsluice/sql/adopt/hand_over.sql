-- PGMQ's objects, except the queues' tables, go to the owner of the schemas. Their former owners keep their rights.
do $$
declare
    v_owner name := (select pg_get_userbyid(n.nspowner) from pg_namespace as n where n.nspname = 'sluice');
    v_object record;
begin
    for v_object in
        select 'function' as kind, p.oid::regprocedure::text as name, p.proowner as owner
        from pg_proc as p
        where p.pronamespace = 'pgmq'::regnamespace
          and not exists (select from adopted_function as f where f.oid = p.oid and f.action = 'keep')
        union all
        select 'type', t.oid::regtype::text, t.typowner
        from pg_type as t
        join pg_class as c on c.oid = t.typrelid and c.relkind = 'c'
        where t.typnamespace = 'pgmq'::regnamespace
          and (
            t.oid in (select a.oid from adopted_type as a)
            or not exists (select from adopted_relation as r where r.oid = c.oid)
          )
        union all
        select 'table', c.oid::regclass::text, c.relowner
        from pg_class as c
        where c.relkind in ('r', 'p', 'v', 'S')
          -- A sequence that a column owns changes its owner with the table.
          and not exists (
            select
            from pg_depend as d
            where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i') and c.relkind = 'S'
          )
          and c.relnamespace = 'pgmq'::regnamespace
          and (
            c.relname in ('meta', 'notify_insert_throttle', 'topic_bindings')
            or not exists (select from adopted_relation as r where r.oid = c.oid)
          )
    loop
        if pg_get_userbyid(v_object.owner) = v_owner then
            continue;
        end if;
        execute format('alter %s %s owner to %I', v_object.kind, v_object.name, v_owner);
        if v_object.kind = 'table'
            and v_object.owner = (select o.owner from adopted_object as o where o.kind = 'schema')
            and not (select r.rolsuper from pg_roles as r where r.oid = v_object.owner)
        then
            execute format('grant all on %s to %I', v_object.name, pg_get_userbyid(v_object.owner));
        end if;
    end loop;

    for v_object in
        select pg_get_userbyid(o.owner) as name
        from adopted_object as o
        where o.kind = 'schema'
          and pg_get_userbyid(o.owner) <> v_owner
          and not (select r.rolsuper from pg_roles as r where r.oid = o.owner)
    loop
        execute format('grant usage on schema pgmq to %I', v_object.name);
    end loop;
end;
$$;
