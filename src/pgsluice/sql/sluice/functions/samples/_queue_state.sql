/*
 * Figures of a queue at a bounded cost: see pgmq._count.
 *
 * Finished are the rows that were deleted from the queue: acknowledged, dead-lettered or purged step by step. The server counts
 * them (track_counts), up to a minute late, and from 0 after a crash. The ids given out less the messages in the queue, which
 * are exact at any time, would count sends that were rolled back, and messages that purge_queue truncated.
 */
create or replace function sluice._queue_state(
    queue_name text,
    out length bigint, out ready bigint, out in_flight bigint, out retrying bigint, out delayed bigint,
    out oldest_ready_s double precision, out sent bigint, out finished bigint, out dead bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_table constant text := pgmq.format_table_name(queue_name, 'q');
begin
    select c.length, c.visible, c.in_flight, c.retrying, c.delayed, extract(epoch from v_now - c.ready_since)
    into length, ready, in_flight, retrying, delayed, oldest_ready_s
    from pgmq._count(v_table, v_now) as c;
    execute format(
        'select case when ids.is_called then ids.last_value else 0 end from pgmq.%I as ids', v_table || '_msg_id_seq'
    )
    into sent;
    select coalesce(sum(pg_stat_get_tuples_deleted(q.oid)), 0)
    into finished
    from (
        select format('pgmq.%I', v_table)::regclass::oid
        union
        select p.relid from pg_partition_tree(format('pgmq.%I', v_table)::regclass) as p
    ) as q (oid);
    dead := sluice._count_dead(queue_name);
end;
$$;

comment on function sluice._queue_state(text) is
    'Return the figures of one work queue; lengths above 5,000 are estimates, and dead letters are counted up to 10,000.';
revoke execute on function sluice._queue_state(text) from public;
grant execute on function sluice._queue_state(text) to sluice_admin, sluice_reader, sluice_monitor;
