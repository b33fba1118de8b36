/*
 * How many messages there are, how many of them are visible, and when the first and the last were enqueued. Counting a
 * million takes 100 ms, and a monitor asks every few seconds. So only 5,000 are counted. Where there are more, fifty ids
 * are looked at in each of 64 places, at equal distances between the lowest message and the highest, and stand for those
 * around them. Consumers take the lowest ids first, so there are few gaps in between, and it is off by little: by no more
 * than a 64th of these ids for each edge between a stretch with messages and one without. The places are the same from
 * call to call, so that a curve is smooth.
 *
 * Rejected: blocks of the table instead of ids, where a few thousand messages in a table that was large once are not found;
 * the planner's estimate, which nothing bounds between two vacuums; the server's statistics, which a crash sets to zero;
 * counters, which every send would pay for.
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
                -- From the middle of equal parts.
                select $2 + ((2 * place - 1) * $3) / (2 * $4) + nth
                from generate_series(1, $4) as place, generate_series(1 - $5 / 2, $5 / 2) as nth
            ))',
        queue_table
    )
    using visible_by, v_first, v_last - v_first + 1, v_places, v_ids_each
    into length, visible;
    -- More than 5,000 were seen.
    length := greatest(length * (v_last - v_first + 1) / (v_places * v_ids_each), v_counted_max + 1);
    visible := visible * (v_last - v_first + 1) / (v_places * v_ids_each);
end;
$$;

comment on function pgmq._count(text, timestamptz) is
    'How many messages a queue holds and how many are visible, beyond 5,000 an estimate; when the first and the last were enqueued.';
revoke execute on function pgmq._count(text, timestamptz) from public;
grant execute on function pgmq._count(text, timestamptz) to sluice_admin, sluice_reader, sluice_monitor;
