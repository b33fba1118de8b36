-- After the functions: the rows without which a table cannot be used, where they are missing.
do $$
declare
    v_queue_id integer;
    v_made_by xid;
begin
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
    for v_queue_id in
        select q.queue_id from pgq.queue as q where not exists (select from pgq.origin as o where o.queue_id = q.queue_id)
    loop
        perform pgq._mark_origin(v_queue_id);
    end loop;
end;
$$;
