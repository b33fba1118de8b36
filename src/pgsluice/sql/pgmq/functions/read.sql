create or replace function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}')
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Taken once and passed as a value: clock_timestamp() inside the query is volatile, and no index could
    -- serve the comparison.
    v_now timestamptz := clock_timestamp();
begin
    -- The claim is a materialized step of its own: the planner may run a subquery with LIMIT … FOR UPDATE
    -- SKIP LOCKED more than once and would claim more than qty.
    return query execute format(
        $query$
        with claimed as materialized (
            select queued.msg_id
            from pgmq.%1$I as queued
            where queued.vt <= $1
              and ($4 is null or $4 = '{}' or queued.message @> $4)
            order by queued.msg_id
            limit $2
            for update skip locked
        ),
        delivered as (
            update pgmq.%1$I as queued
            set last_read_at = $1,
                vt = $1 + $3,
                -- One more at the end of the range would fail, and with it every read of the queue.
                read_ct = least(queued.read_ct::bigint + 1, 2147483647)::integer
            from claimed
            where queued.msg_id = claimed.msg_id
            returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                queued.message, queued.headers
        )
        select * from delivered order by delivered.msg_id
        $query$,
        pgmq.format_table_name(queue_name, 'q')
    )
    using v_now, qty, make_interval(secs => vt), conditional;
end;
$$;

comment on function pgmq.read(text, integer, integer, jsonb) is
    'Claim up to qty visible messages, lowest msg_id first, and hide them for vt seconds; conditional keeps those whose message contains it.';
revoke execute on function pgmq.read(text, integer, integer, jsonb) from public;
grant execute on function pgmq.read(text, integer, integer, jsonb) to sluice_admin, sluice_reader;
