-- Skip locked rows: another session is removing or reusing them. Concurrent calls are safe.
--
-- Reads: queues. Writes: sluice.idempotency_key.
create or replace function sluice._maintain_keys(keys_max integer default 10000)
returns table (task text, queue_name text, done boolean, detail text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_queue record;
    v_removed integer;
begin
    -- Until its message is claimed or done: kept for another hour while the message is in the queue. Of the others, the lifetime is over.
    for v_queue in
        with ended as materialized (
            select k.incarnation, k.is_unlogged, k.key, k.msg_id
            from sluice.deduplication_key as k
            where k.until in ('claimed', 'done')
              and k.expires_at <= v_now
            order by k.expires_at
            limit keys_max
            for update skip locked
        )
        select e.incarnation, e.is_unlogged, s.queue_table, array_agg(e.key) as keys, array_agg(e.msg_id) as ids
        from ended as e
        left join sluice.queue_settings as s on s.deduplication_id = e.incarnation
        group by e.incarnation, e.is_unlogged, s.queue_table
    loop
        if v_queue.queue_table is not null then
            execute format('select coalesce(array_agg(q.msg_id), ''{}'') from pgmq.%I as q where q.msg_id = any ($1)', v_queue.queue_table)
            using v_queue.ids
            into v_queue.ids;
        else
            v_queue.ids := '{}';
        end if;
        update sluice.deduplication_key as k
        set expires_at = case when k.msg_id = any (v_queue.ids) then v_now + interval '1 hour' else k.expires_at end,
            until = case when k.msg_id = any (v_queue.ids) then k.until end
        where k.key = any (v_queue.keys)
          and k.incarnation = v_queue.incarnation
          and k.is_unlogged = v_queue.is_unlogged;
    end loop;

    with expired as materialized (
        select k.tableoid, k.ctid as place
        from sluice.idempotency_key as k
        where k.expires_at <= v_now
          and (k.until is null or k.until = 'window')
        order by k.expires_at
        limit keys_max
        for update skip locked
    )
    delete from sluice.idempotency_key as k
    using expired
    -- By an array of ctids, which are locked and so stay valid: a join alone, with an unknown number of rows, would scan the tables.
    where k.ctid = any (array(select expired.place from expired))
      and k.tableoid = expired.tableoid
      and k.ctid = expired.place;
    get diagnostics v_removed = row_count;
    if v_removed > 0 then
        task := 'keys';
        done := true;
        detail := format(
            '%s expired keys removed%s', v_removed, case when v_removed >= keys_max then '; the next call goes on' end
        );
        return next;
    end if;
end;
$$;

comment on function sluice._maintain_keys(integer) is
    'Remove expired keys of messages, handlers and sinks, and expired results, oldest first, at most keys_max; returns one row if it removed any.';
revoke execute on function sluice._maintain_keys(integer) from public;
grant execute on function sluice._maintain_keys(integer) to sluice_admin;
