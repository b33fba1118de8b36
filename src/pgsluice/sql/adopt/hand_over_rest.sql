-- New objects in the other schemas, and all of PgQ's objects, go to the owner of the schemas too.
do $$
declare
    v_owner name := (select pg_get_userbyid(n.nspowner) from pg_namespace as n where n.nspname = 'sluice');
    v_schemas oid[] := (
        select array_agg(n.oid)
        from pg_namespace as n
        where n.nspname in ('pgq', 'pgq_coop', 'sluice')
           or n.nspname = 'pgmq' and to_regclass('pg_temp.adopted_queue') is null
    );
    v_object record;
begin
    for v_object in
        select 'function' as kind, p.oid::regprocedure::text as name
        from pg_proc as p
        where p.pronamespace = any (v_schemas) and p.proowner <> v_owner::regrole
          and coalesce(current_setting('sluice.functions_kept', true), '') !~ format(E'\\m%s\\M', p.oid)
        union all
        select 'type', t.oid::regtype::text
        from pg_type as t
        join pg_class as c on c.oid = t.typrelid and c.relkind = 'c'
        where t.typnamespace = any (v_schemas) and t.typowner <> v_owner::regrole
        union all
        select 'table', c.oid::regclass::text
        from pg_class as c
        where c.relkind in ('r', 'p', 'v', 'S')
          and c.relnamespace = any (v_schemas)
          and c.relowner <> v_owner::regrole
          -- A sequence that a column owns changes its owner with the table.
          and not exists (
            select
            from pg_depend as d
            where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i') and c.relkind = 'S'
          )
    loop
        execute format('alter %s %s owner to %I', v_object.kind, v_object.name, v_owner);
    end loop;
end;
$$;
