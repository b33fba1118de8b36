-- Reads: the queue's table, by its index of claimed messages in the order of that index (sluice._limit_indexes); at most at_most entries.
create or replace function sluice._in_flight(queue_table text, now timestamptz, at_most integer)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_incremental_sort = off
as $$
declare
    v_claimed bigint;
begin
    execute format(
        'select count(*)
         from (
            select
            from pgmq.%I as q
            where q.vt > q.enqueued_at and q.last_read_at is not null and q.vt > $1
            order by q.vt, q.last_read_at
            limit $2
         ) as claimed',
        queue_table
    )
    using now, at_most
    into v_claimed;
    return v_claimed;
end;
$$;

comment on function sluice._in_flight(text, timestamptz, integer) is
    'Return the number of messages of a queue in flight at a time, counted up to at_most.';
revoke execute on function sluice._in_flight(text, timestamptz, integer) from public;
grant execute on function sluice._in_flight(text, timestamptz, integer) to sluice_admin, sluice_reader, sluice_monitor;
