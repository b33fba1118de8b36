-- Locks rows of the queue's table; never waits.
create or replace function pgmq._lock_runs(queue_table text, due_by timestamptz, msg_ids bigint[], places integer[])
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_locked bigint[];
begin
    -- A run ends at its first message that is locked or no longer visible.
    execute format(
        'with locked as materialized (
            select q.msg_id
            from pgmq.%I as q
            where q.msg_id = any ($2) and q.vt <= $1
            for update skip locked
        ),
        unbroken as (
            select run.number, run.msg_id,
                bool_and(locked.msg_id is not null) over (partition by run.place order by run.number) as whole
            from unnest($2, $3) with ordinality as run (msg_id, place, number)
            left join locked on locked.msg_id = run.msg_id
        )
        select coalesce(array_agg(unbroken.msg_id order by unbroken.number) filter (where unbroken.whole), ''{}'')
        from unbroken',
        queue_table
    )
    into v_locked
    using due_by, msg_ids, places;
    return v_locked;
end;
$$;

comment on function pgmq._lock_runs(text, timestamptz, bigint[], integer[]) is
    'Lock the messages chosen by _group_runs; of each group up to the first that cannot be claimed.';
revoke execute on function pgmq._lock_runs(text, timestamptz, bigint[], integer[]) from public;
grant execute on function pgmq._lock_runs(text, timestamptz, bigint[], integer[]) to sluice_admin, sluice_reader;
