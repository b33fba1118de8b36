-- The functions that create, change and drop queues will run with the rights of the schemas' owner. A role that
-- could call them without the right to create in the schema could not use them, and must not gain the right to drop
-- queues of others. No other role needs to create in the schema any more.
do $$
declare
    v_grant record;
begin
    for v_grant in
        select p.oid::regprocedure::text as function_name, g.name
        from pg_proc as p
        cross join lateral aclexplode(p.proacl) as a
        cross join lateral (
            select case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end
        ) as g (name)
        where p.pronamespace = 'pgmq'::regnamespace
          and p.proname in (
            'create', 'create_non_partitioned', 'create_partitioned', 'create_unlogged', 'convert_archive_partitioned',
            'create_fifo_index', 'disable_notify_insert', 'drop_queue', 'enable_notify_insert', 'notify_queue_listeners'
          )
          and a.grantee <> p.proowner
          and (
            p.proname = 'notify_queue_listeners'
            or a.grantee = 0
            or not has_schema_privilege(a.grantee, 'pgmq', 'create') and pg_get_userbyid(a.grantee) <> 'sluice_admin'
          )
    loop
        execute format('revoke execute on function %s from %s', v_grant.function_name, v_grant.name);
    end loop;

    for v_grant in
        select pg_get_userbyid(a.grantee) as name
        from pg_namespace as n
        cross join lateral aclexplode(n.nspacl) as a
        where n.nspname = 'pgmq'
          and a.privilege_type = 'CREATE'
          and a.grantee <> 0
          and not pg_has_role(a.grantee, n.nspowner, 'member')
    loop
        execute format('revoke create on schema pgmq from %I', v_grant.name);
    end loop;
end;
$$;
