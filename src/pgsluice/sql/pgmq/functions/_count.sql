/*
 * Length of a queue, visible length, and the times of the first and the last message. Counting a million messages takes
 * 100 ms, and a monitor asks every few seconds, so only 5,000 are counted. Longer queues are sampled: 50 ids in each of
 * 64 places, at equal distances between the lowest message and the highest. Consumers take the lowest ids first, so
 * gaps are few. The error is at most a 64th of the id range for each edge between a range with messages and one
 * without. The places do not change between calls, so that a graph is smooth.
 *
 * Rejected: sampling blocks of the table, which misses a few thousand messages in a table that was once large; the
 * planner's estimate, which has no bound between two vacuums; the server's statistics, which a crash resets; counters,
 * which slow down every send.
 */
create or replace function pgmq._count(
    queue_table text, visible_by timestamptz,
    out length bigint, out visible bigint, out oldest timestamptz, out newest timestamptz
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_counted_max constant bigint := 5000;
    v_places constant bigint := 64;
    v_ids_each constant bigint := 50;
    v_first bigint;
    v_last bigint;
begin
    execute format(
        'select count(*), count(*) filter (where first.vt <= $1), min(first.enqueued_at) filter (where isfinite(first.enqueued_at)),
            max(first.enqueued_at) filter (where isfinite(first.enqueued_at)), min(first.msg_id)
         from (
            select queued.msg_id, queued.vt, queued.enqueued_at
            from pgmq.%I as queued
            order by queued.msg_id
            limit $2 + 1
         ) as first',
        queue_table
    )
    using visible_by, v_counted_max
    into length, visible, oldest, newest, v_first;
    if length <= v_counted_max then
        return;
    end if;

    execute format(
        'select queued.msg_id, queued.enqueued_at from pgmq.%I as queued order by queued.msg_id desc limit 1', queue_table
    )
    into v_last, newest;
    execute format(
        'select count(*), count(*) filter (where queued.vt <= $1)
         from pgmq.%I as queued
         where queued.msg_id = any (array(
                -- The middle of each of the equal parts.
                select $2 + ((2 * place - 1) * $3) / (2 * $4) + nth
                from generate_series(1, $4) as place, generate_series(1 - $5 / 2, $5 / 2) as nth
            ))',
        queue_table
    )
    using visible_by, v_first, v_last - v_first + 1, v_places, v_ids_each
    into length, visible;
    -- More than 5,000 exist.
    length := greatest(length * (v_last - v_first + 1) / (v_places * v_ids_each), v_counted_max + 1);
    visible := visible * (v_last - v_first + 1) / (v_places * v_ids_each);
end;
$$;

comment on function pgmq._count(text, timestamptz) is
    'Count a queue''s messages and its visible ones, estimated beyond 5,000; when the first and the last were enqueued.';
revoke execute on function pgmq._count(text, timestamptz) from public;
grant execute on function pgmq._count(text, timestamptz) to sluice_admin, sluice_reader, sluice_monitor;
