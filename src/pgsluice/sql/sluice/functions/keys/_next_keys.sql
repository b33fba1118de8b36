-- A skip scan: one step of two indexes per key, however many messages a key has. Reads: the queue's table.
create or replace function sluice._next_keys(queue_table text, after bigint, upto bigint, qty integer)
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_incremental_sort = off
set jit = off
as $$
declare
    v_keys bigint[];
begin
    execute format(
        'with recursive step (number, key) as (
            select 0, $1
            union all
            select step.number + 1, least(
                (
                    select %2$s
                    from pgmq.%1$I as q
                    where q.vt <= q.enqueued_at and %2$s > step.key
                    order by %2$s
                    limit 1
                ), (
                    select %2$s
                    from pgmq.%1$I as q
                    where q.vt > q.enqueued_at and %2$s > step.key
                    order by %2$s
                    limit 1
                )
            )
            from step
            where step.number < $3 and step.key is not null
        )
        select array(
            select step.key from step where step.number > 0 and step.key <= $2 order by step.number
        )',
        queue_table, sluice._limit_key_sql('q')
    )
    into v_keys
    using after, upto, qty;
    return v_keys;
end;
$$;

comment on function sluice._next_keys(text, bigint, bigint, integer) is
    'Return the next qty keys with messages in a queue, by hash: after one, and up to another.';
revoke execute on function sluice._next_keys(text, bigint, bigint, integer) from public;
grant execute on function sluice._next_keys(text, bigint, bigint, integer) to sluice_admin, sluice_reader;
