-- State as of the last claim: later acknowledgements are read by the next one. A key is user data: not for monitoring roles.
create or replace function sluice.list_blocked_keys(
    log_name text, group_name text,
    out key text, out since timestamptz, out reason text, out waiting bigint, out claim_id bigint, out ev_id bigint, out due_at timestamptz
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_group sluice.share_group := sluice._require_group(log_name, group_name);
    v_shift interval := (sluice._last_claim(v_group.group_id)).clock_shift;
begin
    -- The ledgers must not be truncated between the snapshot of the next statement and its reads.
    lock table sluice.key_turn, sluice.waiting_event in access share mode;
    return query
        select t.key, t.since, 'claimed', t.waiting + cardinality(t.returned), t.claim_id, null::bigint, null::timestamptz
        from sluice._waiting_turns(v_group.group_id) as t
        where t.claim_id is not null
        union all
        select t.key, t.since, 'retrying', t.waiting + cardinality(t.returned) - 1, null, w.ev_id, t.due_at - v_shift
        from sluice._waiting_turns(v_group.group_id) as t
        join sluice.waiting_event as w
            on w.group_id = t.group_id and not w.is_left and w.lane = t.key and w.is_returned and w.waiting_id = t.returned[1]
        where t.claim_id is null and t.due_at - v_shift > clock_timestamp()
        union all
        select d.key, min(d.dead_at), 'parked', count(*) - 1, null, (array_agg(d.msg_id order by d.place))[1], null
        from sluice.dead_letter_event as d
        where d.queue_name = list_blocked_keys.log_name
          and d.consumer_name = list_blocked_keys.group_name
          and d.reason = 'parked'
          and d.key is not null
        group by d.key
        order by 2, 1;
end;
$$;

comment on function sluice.list_blocked_keys(text, text) is
    'Return the keys of a share group with waiting events, longest wait first: claimed, retrying until due_at, or parked; with the number of events waiting behind it.';
revoke execute on function sluice.list_blocked_keys(text, text) from public;
grant execute on function sluice.list_blocked_keys(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

/*
 * The reason why messages of a key are not claimed: its limit of messages in flight is reached; or, if keys are ordered, one
 * of its messages waits for a retry; or the key is parked. A key without waiting messages is not listed, unless it is parked.
 *
 * A key is user data: not for monitoring roles. Reads: the queue's table by its key indexes: messages in flight, and up to
 * 1,000 waiting messages per key.
 */
create or replace function sluice.list_blocked_keys(queue_name text)
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
    where l.queue_table = pgmq.format_table_name(list_blocked_keys.queue_name, 'q');
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

comment on function sluice.list_blocked_keys(text) is
    'Return the keys of a queue with waiting visible messages, longest wait first: parked, retrying until due_at, or claimed; with the blocking message and the number waiting behind it, counted up to 1,000.';
revoke execute on function sluice.list_blocked_keys(text) from public;
grant execute on function sluice.list_blocked_keys(text) to sluice_admin, sluice_reader;
