-- Counts up to 1,000, by the indexes of ready and of due messages.
create or replace function sluice._count_ahead(i_queue_name text, i_msg_id bigint)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_ahead bigint;
begin
    execute format(
        'select least(1000, ready.n + due.n)
         from (
            select count(*) as n
            from (
                select
                from pgmq.%1$I as m
                where m.vt <= m.enqueued_at and m.vt <= $2 and m.msg_id < $1
                order by m.msg_id desc
                limit 1000
            ) as r
         ) as ready
         cross join (
            select count(*) filter (where d.msg_id < $1) as n
            from (
                select m.msg_id
                from pgmq.%1$I as m
                where m.vt > m.enqueued_at and m.vt <= $2
                order by m.vt
                limit 1000
            ) as d
         ) as due',
        pgmq.format_table_name(i_queue_name, 'q')
    )
    using i_msg_id, clock_timestamp()
    into v_ahead;
    return v_ahead;
end;
$$;

comment on function sluice._count_ahead(text, bigint) is
    'Return the number of visible messages of a queue with a lower msg_id, counted up to 1,000.';
revoke execute on function sluice._count_ahead(text, bigint) from public;
grant execute on function sluice._count_ahead(text, bigint) to sluice_admin;
