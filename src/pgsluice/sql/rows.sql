-- After the functions: the rows without which a table cannot be used, where they are missing.
do $$
declare
    v_queue_id integer;
begin
    insert into sluice.ledger (number) select 0 where not exists (select from sluice.ledger);
    insert into pgq.retry_pass
    select 1, '-infinity', pg_current_snapshot(), 0, 0, 9223372036854775807, '-infinity', 0
    where not exists (select from pgq.retry_pass);

    -- 0: the retry entries of all logs.
    for v_queue_id in
        select r.queue_id
        from (select 0 union all select q.queue_id from pgq.queue as q) as r (queue_id)
        where not exists (select from pgq.origin as o where o.queue_id = r.queue_id)
    loop
        perform pgq._mark_origin(v_queue_id);
    end loop;
end;
$$;
