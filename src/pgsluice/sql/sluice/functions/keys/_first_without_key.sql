-- Reads: the queue's table, by its key indexes, in which messages without a key are last: sorted by the null key too, because
-- no other index has that order.
create or replace function sluice._first_without_key(queue_table text, now timestamptz, qty integer)
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
    v_found bigint[];
begin
    execute format(
        'select array(
            select *
            from (
                select *
                from (
                    select q.msg_id
                    from pgmq.%1$I as q
                    where %2$s is null and q.vt <= q.enqueued_at and q.vt <= $1
                    order by %2$s, q.msg_id
                    limit $2
                ) as ready
                union all
                select *
                from (
                    select q.msg_id
                    from pgmq.%1$I as q
                    where %2$s is null and q.vt > q.enqueued_at and q.vt <= $1
                    order by %2$s, q.vt
                    limit greatest($2, 1000)
                ) as due
            ) as visible
            order by visible.msg_id
            limit $2
        )',
        queue_table, sluice._limit_key_sql('q')
    )
    into v_found
    using now, qty;
    return v_found;
end;
$$;

comment on function sluice._first_without_key(text, timestamptz, integer) is
    'Return the first qty visible messages of a queue without a key.';
revoke execute on function sluice._first_without_key(text, timestamptz, integer) from public;
grant execute on function sluice._first_without_key(text, timestamptz, integer) to sluice_admin, sluice_reader;
