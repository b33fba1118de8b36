-- Calls: _claim_groups. Updates rows of the queue's table.
create or replace function pgmq._read_groups(queue_table text, vt integer, qty integer, strategy text)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_claimed bigint[];
begin
    if qty < 0 and strategy <> 'round' then
        raise exception using
            errcode = 'invalid_row_count_in_limit_clause',
            message = 'LIMIT must not be negative',
            hint = 'pass a qty of 0 or more';
    end if;
    -- Null means what it means in PGMQ's readers. A separate statement: the update must see what the claim saw.
    v_claimed := pgmq._claim_groups(
        queue_table, v_now, coalesce(qty, case strategy when 'head' then 2147483647 else 0 end), strategy
    );
    return query execute format(
        'with delivered as (
            update pgmq.%1$I as queued
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
        order by %2$s',
        queue_table, case strategy when 'round' then 'claimed.number' else 'delivered.msg_id' end
    )
    using v_now, v_claimed, make_interval(secs => vt);
end;
$$;

comment on function pgmq._read_groups(text, integer, integer, text) is
    'Claim what _claim_groups chooses and return it: in round-robin order for ''round'', else by msg_id.';
revoke execute on function pgmq._read_groups(text, integer, integer, text) from public;
grant execute on function pgmq._read_groups(text, integer, integer, text) to sluice_admin, sluice_reader;
