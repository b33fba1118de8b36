-- breaking: no
-- PGMQ 0.20 had its functions in public, so its clients expect them there. They need no tables: they work on the queues
-- of schema pgmq.
do $$
declare
    v_found text;
    v_owner name := current_user;
begin
    select string_agg(p.oid::regprocedure::text, ', ' order by p.oid::regprocedure::text)
    into v_found
    from pg_proc as p
    where p.pronamespace = 'public'::regnamespace
      and p.proname in (
        'pgmq_archive', 'pgmq_create', 'pgmq_create_non_partitioned', 'pgmq_create_partitioned', 'pgmq_delete',
        'pgmq_drop_queue', 'pgmq_list_queues', 'pgmq_metrics', 'pgmq_metrics_all', 'pgmq_pop', 'pgmq_read',
        'pgmq_read_with_poll', 'pgmq_send', 'pgmq_send_batch', 'pgmq_set_vt'
      );
    if v_found is not null then
        raise exception using
            errcode = '42P06',
            message = format('schema public already has functions of these names: %s', v_found),
            detail = 'They were not created by pgsluice.',
            hint = 'drop them, or the extension they belong to, and install again';
    end if;

    -- Only the owner of a database may create in public, while the rest of the installation belongs to another role.
    if not has_schema_privilege('public', 'create') then
        perform set_config('role', current_setting('sluice.role_before'), true);
        execute format('grant create on schema public to %I', v_owner);
        perform set_config('role', v_owner::text, true);
    end if;
end;
$$;
