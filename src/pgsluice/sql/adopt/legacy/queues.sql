-- Completes each moved queue as pgmq.create does, and grants the functions to the roles that used the queues.
do $$
declare
    v_queue record;
    v_role record;
    v_function text;
begin
    for v_queue in
        select q.* from adopted_old_queue as q where q.queue_oid is not null order by q.queue_name
    loop
        perform pgmq._create_queue(v_queue.queue_name, v_queue.is_unlogged);
        perform pgmq._create_reader(v_queue.queue_name);
    end loop;

    for v_role in
        select r.* from adopted_old_role as r
        where r.rolname <> (select pg_get_userbyid(n.nspowner) from pg_namespace as n where n.nspname = 'sluice')
    loop
        execute format('grant usage on schema pgmq to %I', v_role.rolname);
        execute format('grant select on pgmq.meta to %I', v_role.rolname);
        for v_function in
            select p.oid::regprocedure::text
            from pg_proc as p
            where p.pronamespace = 'pgmq'::regnamespace and (v_role.is_owner or not p.prosecdef)
               or p.pronamespace = 'public'::regnamespace
              and p.oid in (
                select to_regprocedure(signature)
                from unnest(current_setting('sluice.functions_here')::text[]) as signature
                where signature ~ E'^public\\.'
              )
        loop
            execute format('grant execute on function %s to %I', v_function, v_role.rolname);
        end loop;
        execute format('grant select on public.pgmq_meta to %I', v_role.rolname);
    end loop;
end;
$$;
