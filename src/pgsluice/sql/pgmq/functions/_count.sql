/*
 * Length of a queue, its messages by state, and the times of the first and the last message. Counting a million messages takes
 * 100 ms, and a monitor asks every few seconds, so only 5,000 are counted. Longer queues are sampled: 50 ids in each of
 * 64 places, at equal distances between the lowest message and the highest. Consumers take the lowest ids first, so
 * gaps are few. The error is at most a 64th of the id range for each edge between a range with messages and one
 * without. The places do not change between calls, so that a graph is smooth. Of deferred messages, up to 5,000 are
 * counted by their index, however long the queue is.
 *
 * States: visible; in flight (claimed, and the lease has not ended); retrying (failed or released, and not due yet);
 * delayed. ready_since is when the message that has been visible for longest became visible.
 *
 * Rejected: sampling blocks of the table, which misses a few thousand messages in a table that was once large; the
 * planner's estimate, which has no bound between two vacuums; the server's statistics, which a crash resets; counters,
 * which slow down every send.
 */
create or replace function pgmq._count(
    queue_table text, visible_by timestamptz,
    out length bigint, out visible bigint, out in_flight bigint, out retrying bigint, out delayed bigint,
    out oldest timestamptz, out newest timestamptz, out ready_since timestamptz
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_counted_max constant bigint := 5000;
    v_oldest_among constant bigint := 100; -- of a longer queue, ids are in the order of time but for a few
    v_places constant bigint := 64;
    v_ids_each constant bigint := 50;
    v_is_long boolean;
    v_first bigint;
    v_last bigint;
    v_ids bigint;
    v_deferred bigint;
begin
    execute format('select exists (select from pgmq.%I as queued order by queued.msg_id offset $1)', queue_table)
    using v_counted_max
    into v_is_long;
    execute format(
        'select count(*), count(*) filter (where first.vt <= $1),
            count(*) filter (where first.vt > $1 and first.last_read_at is not null),
            count(*) filter (where first.vt > $1 and first.last_read_at is null and first.read_ct > 0),
            min(first.enqueued_at) filter (where isfinite(first.enqueued_at)),
            max(first.enqueued_at) filter (where isfinite(first.enqueued_at)),
            min(greatest(first.vt, first.enqueued_at)) filter (where first.vt <= $1), min(first.msg_id)
         from (
            select queued.msg_id, queued.vt, queued.enqueued_at, queued.read_ct, queued.last_read_at
            from pgmq.%I as queued
            order by queued.msg_id
            limit $2
         ) as first',
        queue_table
    )
    using visible_by, case when v_is_long then v_oldest_among else v_counted_max end
    into length, visible, in_flight, retrying, oldest, newest, ready_since, v_first;
    if not v_is_long then
        delayed := length - visible - in_flight - retrying;
        return;
    end if;

    execute format(
        'select queued.msg_id, queued.enqueued_at from pgmq.%I as queued order by queued.msg_id desc limit 1', queue_table
    )
    into v_last, newest;
    execute format(
        'select count(*), count(*) filter (where queued.vt > $1),
            count(*) filter (where queued.vt > $1 and queued.last_read_at is not null),
            count(*) filter (where queued.vt > $1 and queued.last_read_at is null and queued.read_ct > 0)
         from pgmq.%I as queued
         where queued.msg_id = any (array(
                -- The middle of each of the equal parts.
                select $2 + ((2 * place - 1) * $3) / (2 * $4) + nth
                from generate_series(1, $4) as place, generate_series(1 - $5 / 2, $5 / 2) as nth
            ))',
        queue_table
    )
    using visible_by, v_first, v_last - v_first + 1, v_places, v_ids_each
    into length, v_deferred, in_flight, retrying;
    v_ids := v_last - v_first + 1;
    -- More than 5,000 exist.
    length := greatest(length * v_ids / (v_places * v_ids_each), v_counted_max + 1);
    v_deferred := v_deferred * v_ids / (v_places * v_ids_each);
    in_flight := in_flight * v_ids / (v_places * v_ids_each);
    retrying := retrying * v_ids / (v_places * v_ids_each);
    execute format(
        'select
            case when deferred.n <= $2 then deferred.n else greatest($3, deferred.n) end,
            case when deferred.n <= $2 then deferred.in_flight else $4 end,
            case when deferred.n <= $2 then deferred.retrying else $5 end,
            least(
                (select queued.enqueued_at from pgmq.%1$I as queued where queued.vt <= queued.enqueued_at and queued.vt <= $1 order by queued.msg_id limit 1),
                (select queued.vt from pgmq.%1$I as queued where queued.vt > queued.enqueued_at and queued.vt <= $1 order by queued.vt limit 1)
            )
         from (
            select count(*) as n, count(*) filter (where d.last_read_at is not null) as in_flight,
                count(*) filter (where d.last_read_at is null and d.read_ct > 0) as retrying
            from (
                select queued.last_read_at, queued.read_ct
                from pgmq.%1$I as queued
                where queued.vt > queued.enqueued_at and queued.vt > $1
                order by queued.vt
                limit $2 + 1
            ) as d
         ) as deferred',
        queue_table
    )
    using visible_by, v_counted_max, v_deferred, in_flight, retrying
    into v_deferred, in_flight, retrying, ready_since;
    length := greatest(length, v_deferred);
    visible := length - v_deferred;
    delayed := greatest(0, v_deferred - in_flight - retrying);
end;
$$;

comment on function pgmq._count(text, timestamptz) is
    'Count a queue''s messages by state, estimated beyond 5,000; when the first and the last were enqueued, and since when one is visible.';
revoke execute on function pgmq._count(text, timestamptz) from public;
grant execute on function pgmq._count(text, timestamptz) to sluice_admin, sluice_reader, sluice_monitor;
