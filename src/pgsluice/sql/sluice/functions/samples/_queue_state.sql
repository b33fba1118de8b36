/*
 * Figures of a queue at a bounded cost, as in pgmq._count: the first 5,000 messages are counted; of longer queues 50 ids in
 * each of 64 places are, at equal distances. The oldest ready message is looked up among the first 5,000.
 */
create or replace function sluice._queue_state(
    queue_name text,
    out length bigint, out ready bigint, out in_flight bigint, out delayed bigint, out oldest_ready_s double precision,
    out sent bigint, out finished bigint, out dead bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_counted_max constant bigint := 5000;
    v_places constant bigint := 64;
    v_ids_each constant bigint := 50;
    v_now constant timestamptz := clock_timestamp();
    v_table constant text := pgmq.format_table_name(queue_name, 'q');
    v_first bigint;
    v_last bigint;
begin
    execute format(
        'select count(*), count(*) filter (where first.vt <= $1), count(*) filter (where first.vt > $1 and first.read_ct > 0),
            extract(epoch from $1 - min(first.vt) filter (where first.vt <= $1 and isfinite(first.vt))), min(first.msg_id)
         from (
            select queued.msg_id, queued.vt, queued.read_ct
            from pgmq.%I as queued
            order by queued.msg_id
            limit $2 + 1
         ) as first',
        v_table
    )
    using v_now, v_counted_max
    into length, ready, in_flight, oldest_ready_s, v_first;
    if length > v_counted_max then
        execute format('select queued.msg_id from pgmq.%I as queued order by queued.msg_id desc limit 1', v_table)
        into v_last;
        execute format(
            'select count(*), count(*) filter (where queued.vt <= $1), count(*) filter (where queued.vt > $1 and queued.read_ct > 0)
             from pgmq.%I as queued
             where queued.msg_id = any (array(
                    -- The middle of each of the equal parts.
                    select $2 + ((2 * place - 1) * $3) / (2 * $4) + nth
                    from generate_series(1, $4) as place, generate_series(1 - $5 / 2, $5 / 2) as nth
                ))',
            v_table
        )
        using v_now, v_first, v_last - v_first + 1, v_places, v_ids_each
        into length, ready, in_flight;
        length := greatest(length * (v_last - v_first + 1) / (v_places * v_ids_each), v_counted_max + 1);
        ready := ready * (v_last - v_first + 1) / (v_places * v_ids_each);
        in_flight := in_flight * (v_last - v_first + 1) / (v_places * v_ids_each);
    end if;
    delayed := greatest(0, length - ready - in_flight);
    execute format(
        'select case when ids.is_called then ids.last_value else 0 end from pgmq.%I as ids', v_table || '_msg_id_seq'
    )
    into sent;
    finished := greatest(0, sent - length);
    dead := sluice._count_dead(queue_name);
end;
$$;

comment on function sluice._queue_state(text) is
    'Return the figures of one work queue; lengths above 5,000 are estimates, and dead letters are counted up to 10,000.';
revoke execute on function sluice._queue_state(text) from public;
grant execute on function sluice._queue_state(text) to sluice_admin, sluice_reader, sluice_monitor;
