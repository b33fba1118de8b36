-- After repair.py has created missing tables, and the functions: the rows without which a table cannot be used, and those
-- that can be told from what is there.
do $$
declare
    v_row record;
    v_made_by xid;
begin
    if to_regclass('pgq.queue') is null then
        return; -- tables of queues only
    end if;
    insert into sluice.ledger (number) select 0 where not exists (select from sluice.ledger);
    insert into pgq.retry_pass
    select 1, '-infinity', pg_current_snapshot(), 0, 0, 9223372036854775807, '-infinity', 0
    where not exists (select from pgq.retry_pass);

    if not exists (select from pgq.origin as o where o.queue_id = 0) then
        insert into pgq.origin values (0, 0, '0', '') returning xmin into v_made_by;
        update pgq.origin as o set made_by = v_made_by where o.queue_id = 0 and o.part = 0;
        begin
            insert into pgq.origin values (0, 1, '0', '') returning xmin into v_made_by;
            update pgq.origin as o set made_by = v_made_by where o.queue_id = 0 and o.part = 1;
        exception
            when assert_failure then
                raise; -- never reached: the block exists for its subtransaction
        end;
    end if;
    for v_row in
        select q.queue_id from pgq.queue as q where not exists (select from pgq.origin as o where o.queue_id = q.queue_id)
    loop
        perform pgq._mark_origin(v_row.queue_id);
    end loop;

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
