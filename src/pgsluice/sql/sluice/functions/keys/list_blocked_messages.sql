/*
 * The reason why messages of a key are not claimed: its limit of messages in flight is reached; or, if keys are ordered, one
 * of its messages waits for a retry; or the key is parked. A key without waiting messages is not listed, unless it is parked.
 *
 * A key is user data: not for monitoring roles. Reads: the queue's table by its key indexes: messages in flight, and up to
 * 1,000 waiting messages per key.
 */
create or replace function sluice.list_blocked_messages(queue_name text)
returns table (key text, reason text, since timestamptz, msg_id bigint, due_at timestamptz, waiting bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_limits sluice.queue_settings;
    v_now timestamptz := clock_timestamp();
begin
    select l.*
    into v_limits
    from sluice.queue_settings as l
    where l.queue_table = pgmq.format_table_name(list_blocked_messages.queue_name, 'q');
    if num_nonnulls(v_limits.key_concurrency, v_limits.when_waiting) = 0 then
        perform sluice._registered_name(queue_name);
        return;
    end if;
    return query execute format(
        'with blocking as (
            select p.key_hash, p.key, ''parked'' as reason, p.parked_at as since, p.msg_id, null::timestamptz as due_at
            from sluice.parked_key as p
            where p.limits_id = $2
            union all
            (
                select distinct on (1) %2$s, q.headers ->> ''x-pgmq-group'', ''retrying'', null::timestamptz, q.msg_id, q.vt
                from pgmq.%1$I as q
                where $4 and q.read_ct > 0 and q.last_read_at is null and q.vt > $1 and %2$s is not null
                order by 1, q.vt desc
            )
            union all
            select claimed.key_hash, claimed.key, ''claimed'', claimed.since, claimed.msg_id, claimed.vt
            from (
                select %2$s as key_hash, min(q.headers ->> ''x-pgmq-group'') as key, min(q.last_read_at) as since,
                    min(q.msg_id) as msg_id, min(q.vt) as vt
                from pgmq.%1$I as q
                where q.vt > q.enqueued_at and q.last_read_at is not null and q.vt > $1 and %2$s is not null
                group by 1
                having count(*) >= $3
            ) as claimed
        )
        select blocking.key, blocking.reason, blocking.since, blocking.msg_id, blocking.due_at, behind.waiting
        from blocking
        cross join lateral (
            select count(*) as waiting
            from (
                (
                    select q.msg_id
                    from pgmq.%1$I as q
                    where %2$s between blocking.key_hash and blocking.key_hash and q.vt <= q.enqueued_at and q.vt <= $1
                    limit 1000
                )
                union all
                (
                    select q.msg_id
                    from pgmq.%1$I as q
                    where %2$s between blocking.key_hash and blocking.key_hash and q.vt > q.enqueued_at and q.vt <= $1
                    limit 1000
                )
                limit 1000
            ) as visible
            where visible.msg_id <> blocking.msg_id
        ) as behind
        where behind.waiting > 0 or blocking.reason = ''parked''
        order by blocking.since, blocking.msg_id',
        v_limits.queue_table, sluice._limit_key_sql('q')
    )
    using v_now, v_limits.limits_id, case when v_limits.when_waiting is null then v_limits.key_concurrency else 1 end,
        coalesce(v_limits.when_waiting = 'block', false);
end;
$$;

comment on function sluice.list_blocked_messages(text) is
    'Return the keys of a queue with waiting visible messages, longest wait first: parked, retrying until due_at, or claimed; with the blocking message and the number waiting behind it, counted up to 1,000.';
revoke execute on function sluice.list_blocked_messages(text) from public;
grant execute on function sluice.list_blocked_messages(text) to sluice_admin, sluice_reader;
