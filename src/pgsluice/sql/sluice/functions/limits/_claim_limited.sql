/*
 * A claim that keeps to the limits of its queue: how many there is room for, then which, then the claim.
 *
 * Nothing is counted up and down. What is in flight is what lies in the index of claimed messages with a time to come, so a claim
 * that lapsed is out of it by itself; never more are looked at than the limit. What was started in a time is the difference of two
 * running totals of the ledger. Both are read under the lock, by statements of their own, and it is held until the claim is
 * committed: so the next one sees it. Who has priorities only needs no lock: two that choose at once choose different messages.
 *
 * Calls: sluice._lock_limits, sluice._room, sluice._pick_by_key, sluice._pick_by_priority, the queue's reader.
 * Writes: the queue's table, sluice.queue_start.
 */
create or replace function sluice._claim_limited(i_limits_id integer, queue_table text, vt integer, qty integer)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits sluice.queue_limits;
    v_now timestamptz;
    v_room bigint;
    v_before bigint;
    v_claimed bigint[];
    v_started integer;
begin
    if qty < 0 then
        raise exception using
            errcode = 'invalid_row_count_in_limit_clause',
            message = 'LIMIT must not be negative',
            hint = 'give a qty of 0 or more';
    end if;
    select l.* into v_limits from sluice.queue_limits as l where l.limits_id = i_limits_id;
    if num_nonnulls(
        v_limits.fleet_concurrency, v_limits.key_concurrency, v_limits.rate, v_limits.when_waiting
    ) > 0 then
        v_limits := sluice._lock_limits(i_limits_id);
    end if;
    v_now := clock_timestamp(); -- not before the lock: what was started while it was waited for is no start to come
    select r.room, r.before, r.at into v_room, v_before, v_now from sluice._room(v_limits, v_now) as r;
    v_room := least(v_room, coalesce(qty, 2147483647));
    if v_room <= 0 then
        return;
    end if;

    if v_limits.priority_weights is not null then
        v_claimed := sluice._pick_by_priority(queue_table, v_limits.priority_weights, v_now, v_room::integer);
    elsif num_nonnulls(v_limits.key_concurrency, v_limits.when_waiting) > 0 then
        v_claimed := sluice._pick_by_key(v_limits, v_now, v_room::integer);
    end if;
    if v_claimed is null then
        return query execute format('select * from pgmq.%I($1, $2, $3, null, false)', queue_table)
            using v_now, make_interval(secs => vt), v_room::integer;
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
    'Claim up to qty visible messages of a queue with limits, as far and in the order that these allow.';
revoke execute on function sluice._claim_limited(integer, text, integer, integer) from public;
grant execute on function sluice._claim_limited(integer, text, integer, integer) to sluice_admin, sluice_reader;
