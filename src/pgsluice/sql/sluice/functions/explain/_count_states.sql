/*
 * Of deferred messages, the first 5,000 by time are counted by state: at_least is true if there are more.
 *
 * Calls: pgmq._count. Reads: the queue by its indexes of ready and of deferred messages.
 */
create or replace function sluice._count_states(
    i_table text,
    out length bigint, out visible bigint, out in_flight bigint, out waiting bigint, out delayed bigint, out at_least boolean,
    out lease_until timestamptz, out due_at timestamptz, out expired bigint, out expired_since timestamptz,
    out due_since timestamptz, out ready_since timestamptz
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_counted_max constant integer := 5000;
    v_now constant timestamptz := clock_timestamp();
begin
    select n.length, n.visible into length, visible from pgmq._count(i_table, v_now) as n;
    execute format(
        'select count(*) filter (where d.last_read_at is not null),
            count(*) filter (where d.last_read_at is null and d.read_ct > 0),
            count(*) filter (where d.last_read_at is null and d.read_ct = 0),
            count(*) > $2,
            min(d.vt) filter (where d.last_read_at is not null),
            min(d.vt) filter (where d.last_read_at is null)
         from (
            select m.vt, m.last_read_at, m.read_ct
            from pgmq.%I as m
            where m.vt > m.enqueued_at and m.vt > $1
            order by m.vt
            limit $2 + 1
         ) as d',
        i_table
    )
    using v_now, v_counted_max
    into in_flight, waiting, delayed, at_least, lease_until, due_at;
    execute format(
        'select count(*) filter (where d.last_read_at is not null), min(d.vt) filter (where d.last_read_at is not null), min(d.vt)
         from (
            select m.vt, m.last_read_at
            from pgmq.%I as m
            where m.vt > m.enqueued_at and m.vt <= $1
            order by m.vt
            limit $2
         ) as d',
        i_table
    )
    using v_now, v_counted_max
    into expired, expired_since, due_since;
    execute format(
        'select m.enqueued_at from pgmq.%I as m where m.vt <= m.enqueued_at and m.vt <= $1 order by m.msg_id limit 1', i_table
    )
    using v_now
    into ready_since;
end;
$$;

comment on function sluice._count_states(text) is
    'Return the numbers of messages of a queue by state, and the first times of each.';
revoke execute on function sluice._count_states(text) from public;
grant execute on function sluice._count_states(text) to sluice_admin;
