/*
 * A claim within the limits of its queue: compute the free capacity, select the messages, then claim them.
 *
 * No counters are kept. The number in flight is read from the index of claimed messages with a future time, so an expired
 * claim drops out by itself; no more entries are read than the limit. The number of starts in an interval is the difference
 * of two running totals of the ledger. Both are read under the lock, by separate statements, and the lock is held until the
 * claim is committed, so that the next claim sees it. A queue with priorities only needs no lock: two concurrent claims
 * choose different messages.
 *
 * Calls: sluice._lock_limits, sluice._capacity, sluice._pick_by_key, sluice._pick_by_priority, the queue's reader.
 * Writes: the queue's table, sluice.queue_start.
 */
create or replace function sluice._claim_limited(i_limits_id integer, queue_table text, vt integer, qty integer)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits sluice.queue_settings;
    v_now timestamptz;
    v_capacity bigint;
    v_before bigint;
    v_claimed bigint[];
    v_started integer;
begin
    if qty < 0 then
        raise exception using
            errcode = 'invalid_row_count_in_limit_clause',
            message = 'LIMIT must not be negative',
            hint = 'pass a qty of 0 or more';
    end if;
    select l.* into v_limits from sluice.queue_settings as l where l.limits_id = i_limits_id;
    if num_nonnulls(
        v_limits.fleet_concurrency, v_limits.key_concurrency, v_limits.rate, v_limits.when_waiting
    ) > 0 then
        v_limits := sluice._lock_limits(i_limits_id);
    end if;
    v_now := clock_timestamp(); -- after the lock: messages started while waiting for it are in the past
    select r.capacity, r.before, r.at into v_capacity, v_before, v_now from sluice._capacity(v_limits, v_now) as r;
    v_capacity := least(v_capacity, coalesce(qty, 2147483647));
    if v_capacity <= 0 then
        return;
    end if;

    if v_limits.priority_weights is not null then
        v_claimed := sluice._pick_by_priority(queue_table, v_limits.priority_weights, v_now, v_capacity::integer);
    elsif num_nonnulls(v_limits.key_concurrency, v_limits.when_waiting) > 0 then
        v_claimed := sluice._pick_by_key(v_limits, v_now, v_capacity::integer);
    end if;
    if v_claimed is null then
        return query execute format('select * from pgmq.%I($1, $2, $3, null, false)', queue_table)
            using v_now, make_interval(secs => vt), v_capacity::integer;
    elsif v_claimed <> '{}' then
        return query execute format(
            'with delivered as (
                update pgmq.%I as queued
                set last_read_at = $1,
                    vt = $1 + $3,
                    read_ct = least(queued.read_ct::bigint + 1, 2147483647)::integer
                where queued.msg_id = any ($2)
                returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                    queued.message, queued.headers
            )
            select delivered.*
            from delivered
            join unnest($2) with ordinality as claimed (msg_id, number) on claimed.msg_id = delivered.msg_id
            order by claimed.number',
            queue_table
        )
        using v_now, v_claimed, make_interval(secs => vt);
    end if;
    get diagnostics v_started = row_count;
    if v_limits.rate is not null and v_started > 0 then
        insert into sluice.queue_start (limits_id, started_at, before, started)
        values (i_limits_id, v_now, v_before, v_started);
    end if;
end;
$$;

comment on function sluice._claim_limited(integer, text, integer, integer) is
    'Claim up to qty visible messages of a queue within its limits and in their order.';
revoke execute on function sluice._claim_limited(integer, text, integer, integer) from public;
grant execute on function sluice._claim_limited(integer, text, integer, integer) to sluice_admin, sluice_reader;
