-- Before the migrations of the legacy names: functions and a table of these names that pgsluice did not create.
do $$
declare
    v_found text;
    v_is_pgmq boolean;
begin
    if exists (select from sluice.migration as m where m.version ~ '^legacy/') then
        return;
    end if;
    select string_agg(o.name, ', ' order by o.name)
    into v_found
    from (
        select p.oid::regprocedure::text as name
        from pg_proc as p
        where p.pronamespace = 'public'::regnamespace
          and p.proname in (
            'pgmq_archive', 'pgmq_create', 'pgmq_create_non_partitioned', 'pgmq_create_partitioned', 'pgmq_delete',
            'pgmq_drop_queue', 'pgmq_list_queues', 'pgmq_metrics', 'pgmq_metrics_all', 'pgmq_pop', 'pgmq_read',
            'pgmq_read_with_poll', 'pgmq_send', 'pgmq_send_batch', 'pgmq_set_vt'
          )
        union all
        select 'pgmq_meta'
        from pg_class as c
        where c.oid = to_regclass('public.pgmq_meta')
    ) as o;
    if v_found is null then
        return;
    end if;
    v_is_pgmq := exists (select from pg_extension as e where e.extname = 'pgmq')
        or exists (select from pg_class as c where c.oid = to_regclass('public.pgmq_meta') and c.relkind in ('r', 'p'));
    raise exception using
        errcode = '42P06',
        message = format('schema public already has objects of these names: %s', v_found),
        detail = 'They were not created by pgsluice.',
        hint = case
            when v_is_pgmq then
                'convert PGMQ 0.20 with `pgsluice schema adopt`, which keeps its queues; do not drop the extension: that '
                'drops the queues with their messages'
            else 'rename them, or move them to another schema: alter function ... set schema ...; and install again. '
                'If they are PGMQ''s, run `pgsluice schema adopt` instead, which keeps the queues'
        end;
end;
$$;
