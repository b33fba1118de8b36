-- Roles that could call PGMQ's functions can call ours. Functions that create and drop queues run with the rights of
-- the schemas' owner, so only roles that could create tables in the schema may call them. Internal functions and the
-- queues' own functions are granted too, because functions call them with the caller's rights. Default privileges do the same
-- for later queues and for functions of later releases.
do $$
declare
    v_owner name := (select pg_get_userbyid(n.nspowner) from pg_namespace as n where n.nspname = 'sluice');
    v_grant record;
begin
    for v_grant in
        select p.oid::regprocedure::text as function_name, g.rolname
        from adopted_grant as g
        join pg_proc as p
            on p.pronamespace = 'pgmq'::regnamespace
            and (g.all_of_them or p.proname = any (g.function_names) or p.proname ~ '^(_|q_|a_)')
            and (g.may_create or not p.prosecdef)
        where g.rolname <> v_owner
          and not exists (select from adopted_function as f where f.oid = p.oid and f.action = 'keep')
    loop
        execute format('grant execute on function %s to %I', v_grant.function_name, v_grant.rolname);
    end loop;

    for v_grant in
        select g.rolname from adopted_grant as g where g.all_of_them and g.rolname <> v_owner
    loop
        execute format(
            'alter default privileges for role %I in schema pgmq grant execute on functions to %I', v_owner, v_grant.rolname
        );
    end loop;
end;
$$;
