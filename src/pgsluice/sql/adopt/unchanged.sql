-- The objects were collected before they were locked.
do $$
begin
    perform
    from (select m.queue_name::text from pgmq.meta as m) as m
    full join adopted_queue as q using (queue_name)
    where m.queue_name is null
       or q.queue_name is null
       or q.queue_oid is distinct from to_regclass(format('pgmq.%I', q.queue_table))::oid;
    if found then
        raise exception using
            errcode = 'lock_not_available',
            message = 'queues were created or dropped while the tables were being locked',
            hint = 'run the adoption again; nothing was changed';
    end if;
end;
$$;
