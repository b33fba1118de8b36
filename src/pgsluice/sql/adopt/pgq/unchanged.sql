-- The objects were collected before they were locked.
do $$
begin
    perform
    from pgq.queue as q
    full join adopted_log as l using (queue_id)
    where q.queue_id is null or l.queue_id is null;
    if found then
        raise exception using
            errcode = 'lock_not_available',
            message = 'event logs were created or dropped while the tables were being locked',
            hint = 'run the adoption again; nothing was changed';
    end if;
end;
$$;
