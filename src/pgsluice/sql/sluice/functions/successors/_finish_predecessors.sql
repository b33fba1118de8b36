/*
 * Takes away what waits for these messages, level by level: a message that is dead-lettered here is in turn one that others wait for.
 * A loop, as the recursion of triggers over a long chain would exceed the stack. So the rows of all levels are taken away before the
 * messages are moved, and the triggers on that find nothing.
 *
 * The row of a waiting message is locked, in the order of ids, before it is counted down: of two transactions that finish the last
 * two, the second waits for the first, sees its count, and releases.
 *
 * A message whose vt is not infinity any more was made visible by hand, and is left alone.
 *
 * Reads: pgmq.meta. Writes: sluice.predecessor, sluice.successor, the queues of the waiting messages, sluice.dead_letter_message.
 */
create or replace function sluice._finish_predecessors(queue_table text, msg_ids bigint[])
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_tables text[] := array_fill(queue_table, array[cardinality(msg_ids)]);
    v_msg_ids bigint[] := msg_ids;
    v_failures text[];
    v_ids bigint[];
    v_counts integer[];
    v_reasons text[];
    v_ended sluice.successor[];
    v_failed sluice.successor[] := '{}';
    v_released bigint := 0;
    v_queue record;
begin
    -- Ids restart in a queue that is created again; its dead letters stay.
    v_failures := array(
        select (
            select format('message %s of queue %s was dead-lettered: %s', d.msg_id, substr(queue_table, 3), d.reason)
            from sluice.dead_letter_message as d
            where lower(d.queue_name) = substr(_finish_predecessors.queue_table, 3)
              and d.msg_id = finished.msg_id
              and d.dead_at >= (
                  select q.created_at from pgmq.meta as q where lower(q.queue_name) = substr(_finish_predecessors.queue_table, 3)
              )
            order by d.dead_letter_id desc
            limit 1
        )
        from unnest(msg_ids) with ordinality as finished (msg_id, position)
        order by finished.position
    );
    loop
        with gone as (
            delete from sluice.predecessor as p
            using unnest(v_tables, v_msg_ids, v_failures) as f (queue_table, msg_id, failure)
            where p.queue_table = f.queue_table and p.msg_id = f.msg_id
            returning p.successor_id, f.failure
        ),
        counted as (
            select g.successor_id, count(*)::integer as qty, min(g.failure) as failure from gone as g group by g.successor_id
        )
        select array_agg(c.successor_id order by c.successor_id), array_agg(c.qty order by c.successor_id),
            array_agg(c.failure order by c.successor_id)
        into v_ids, v_counts, v_reasons
        from counted as c;
        exit when v_ids is null;

        perform from sluice.successor as s where s.successor_id = any (v_ids) order by s.successor_id for update;
        update sluice.successor as s
        set remaining = s.remaining - c.qty,
            failure = coalesce(s.failure, c.failure)
        from unnest(v_ids, v_counts, v_reasons) as c (successor_id, qty, failure)
        where s.successor_id = c.successor_id;
        with ended as (
            delete from sluice.successor as s
            where s.successor_id = any (v_ids)
              and (s.remaining <= 0 or s.is_failing and s.failure is not null)
            returning s
        )
        select array_agg(e.s) into v_ended from ended as e;

        for v_queue in
            select e.queue_table, array_agg(e.msg_id) as msg_ids, array_agg(e.visible_at) as times
            from unnest(v_ended) as e
            where not (e.is_failing and e.failure is not null)
              and to_regclass(format('pgmq.%I', e.queue_table)) is not null
            group by e.queue_table
            order by e.queue_table
        loop
            execute format(
                'update pgmq.%I as m
                 set vt = greatest(r.visible_at, clock_timestamp())
                 from unnest($1, $2) as r (msg_id, visible_at)
                 where m.msg_id = r.msg_id and m.msg_id = any ($1) and m.vt = ''infinity''',
                v_queue.queue_table
            )
            using v_queue.msg_ids, v_queue.times;
            v_released := v_released + cardinality(v_queue.msg_ids);
        end loop;

        v_ended := array(select e from unnest(v_ended) as e where e.is_failing and e.failure is not null);
        v_failed := v_failed || v_ended;
        select array_agg(e.queue_table), array_agg(e.msg_id),
            array_agg(format('message %s of queue %s was dead-lettered: predecessor failed', e.msg_id, substr(e.queue_table, 3)))
        into v_tables, v_msg_ids, v_failures
        from unnest(v_ended) as e;
        exit when v_tables is null;
    end loop;

    for v_queue in
        select f.queue_table, array_agg(f.msg_id) as msg_ids, array_agg(f.failure) as failures
        from unnest(v_failed) as f
        where to_regclass(format('pgmq.%I', f.queue_table)) is not null
        group by f.queue_table
        order by f.queue_table
    loop
        execute format(
            'with buried as (
                delete from pgmq.%I as m
                where m.msg_id = any ($1) and m.vt = ''infinity''
                returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.message, m.headers
            )
            insert into sluice.dead_letter_message (
                queue_name, msg_id, read_ct, enqueued_at, last_read_at, message, headers, reason, error
            )
            select $3, b.msg_id, b.read_ct, b.enqueued_at, b.last_read_at, b.message, b.headers, ''predecessor failed'', f.failure
            from buried as b
            join unnest($1, $2) as f (msg_id, failure) on f.msg_id = b.msg_id
            order by b.msg_id',
            v_queue.queue_table
        )
        using v_queue.msg_ids, v_queue.failures, substr(v_queue.queue_table, 3);
    end loop;
    return v_released;
end;
$$;

comment on function sluice._finish_predecessors(text, bigint[]) is
    'Release or dead-letter the messages that wait for these, which have left their queue; returns how many were released.';
revoke execute on function sluice._finish_predecessors(text, bigint[]) from public;
grant execute on function sluice._finish_predecessors(text, bigint[]) to sluice_admin;

/*
 * Once for each statement. The messages that it moved to the dead letters are there already.
 *
 * A snapshot older than the send does not show its rows; maintenance finds them.
 *
 * Reads: sluice.predecessor.
 */
create or replace function sluice._finish_predecessors()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_msg_ids bigint[];
begin
    if tg_op = 'TRUNCATE' then
        v_msg_ids := array(
            select distinct p.msg_id from sluice.predecessor as p where p.queue_table = tg_table_name::text order by 1
        );
    else
        v_msg_ids := array(
            select g.msg_id
            from gone as g
            where exists (
                select from sluice.predecessor as p where p.queue_table = tg_table_name::text and p.msg_id = g.msg_id
            )
            order by g.msg_id
        );
    end if;
    if v_msg_ids <> '{}' and tg_table_schema = 'pgmq' then
        perform sluice._finish_predecessors(tg_table_name::text, v_msg_ids);
    end if;
    return null;
end;
$$;

comment on function sluice._finish_predecessors() is
    'Trigger function of sluice.enable_successors: release the messages that waited for the last of the deleted ones.';
revoke execute on function sluice._finish_predecessors() from public;
