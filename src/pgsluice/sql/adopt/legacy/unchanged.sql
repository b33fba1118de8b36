-- The objects were collected before they were locked.
do $$
declare
    v_is_changed boolean;
begin
    select bool_or(t.oid is not null and c.oid is null)
    into v_is_changed
    from adopted_old_queue as q
    cross join lateral (values (q.queue_oid), (q.archive_oid)) as t (oid)
    left join pg_class as c on c.oid = t.oid;
    if exists (select from pg_class as c where c.oid = to_regclass('public.pgmq_meta') and c.relkind in ('r', 'p')) then
        v_is_changed := v_is_changed
            or exists (
                select
                from public.pgmq_meta as m
                where not exists (select from adopted_old_queue as q where q.queue_name = m.queue_name)
            );
    end if;
    if v_is_changed then
        raise exception using
            errcode = 'lock_not_available',
            message = 'queues were created or dropped while the tables were being locked',
            hint = 'run the adoption again; nothing was changed';
    end if;
end;
$$;
