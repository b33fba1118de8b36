-- After repair.py has created missing tables, and rows.sql: the rows that can be derived from existing ones.
do $$
declare
    v_row record;
begin
    if to_regclass('pgq.queue') is null then
        return; -- tables of queues only
    end if;
    -- A share group without its options is an ordinary consumer: its position is kept, and it can be unregistered.
    for v_row in
        update pgq.subscriber as s
        set sub_is_group = false
        where s.sub_is_group and not exists (select from sluice.share_group as g where g.sub_key = s.sub_key)
        returning (select q.queue_name from pgq.queue as q where q.queue_id = s.sub_queue) as queue_name,
            (select c.co_name from pgq.consumer as c where c.co_id = s.sub_consumer) as co_name
    loop
        raise warning using
            message = format('share group %s of log %s is an ordinary consumer now', v_row.co_name, v_row.queue_name),
            detail = 'Its options, claims, retries and leases were in a table that was dropped.',
            hint = format(
                'to begin anew, call pgq.unregister_consumer(%L, %L) and create the group', v_row.queue_name, v_row.co_name
            );
    end loop;
end;
$$;

-- A queue's table has its name, in lower case.
insert into pgmq.meta (queue_name, is_partitioned, is_unlogged)
select substr(c.relname, 3), c.relkind = 'p', c.relpersistence = 'u'
from pg_class as c
where c.relnamespace = 'pgmq'::regnamespace
  and c.relname ~ '^q_'
  and c.relkind in ('r', 'p')
  and not c.relispartition
  and to_regclass(format('pgmq.%I', 'a_' || substr(c.relname, 3))) is not null
  and not exists (select from pgmq.meta);
