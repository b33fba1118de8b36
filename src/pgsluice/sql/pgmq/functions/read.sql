create or replace function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}')
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Taken once and passed as a value: clock_timestamp() inside the query is volatile, and no index could
    -- serve the comparison.
    v_now timestamptz := clock_timestamp();
    v_queue text := pgmq.format_table_name(queue_name, 'q');
begin
    -- The claim is a materialized step of its own: the planner may run a subquery with LIMIT … FOR UPDATE
    -- SKIP LOCKED more than once and would claim more than qty. The ids come as an array: joined, their number
    -- unknown to the planner, it would read the whole table.
    return query execute format(
        'with claimed as materialized (%1$s),
        delivered as (
            update pgmq.%2$I as queued
            set last_read_at = $1,
                vt = $1 + $4,
                -- One more at the end of the range would fail, and with it every read of the queue.
                read_ct = least(queued.read_ct::bigint + 1, 2147483647)::integer
            where queued.msg_id = any (array(select claimed.msg_id from claimed))
            returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                queued.message, queued.headers
        )
        select * from delivered order by delivered.msg_id',
        pgmq._claim_sql(v_queue, v_now), v_queue
    )
    using v_now, qty, conditional, make_interval(secs => vt);
end;
$$;

comment on function pgmq.read(text, integer, integer, jsonb) is
    'Claim up to qty visible messages, lowest msg_id first, and hide them for vt seconds; conditional keeps those whose message contains it.';
revoke execute on function pgmq.read(text, integer, integer, jsonb) from public;
grant execute on function pgmq.read(text, integer, integer, jsonb) to sluice_admin, sluice_reader;
