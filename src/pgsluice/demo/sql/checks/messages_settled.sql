-- Sent: one in each transaction of the load, and the poison message. Each is either archived or
-- dead-lettered, and none is left in the queue.
with place as (
    select msg_id, 'queue' as place from pgmq.q_orders
    union all
    select msg_id, 'archive' from pgmq.a_orders
    union all
    select msg_id, 'dead letters' from sluice.dead_letter where queue_name = 'orders'
),
different as (
    select msg_id, array_agg(place) as places
    from place
    group by msg_id
    having count(*) > 1 or bool_or(place = 'queue')
)
select
    (select count(*) from public.pgbench_history) + 1 as expected,
    (select count(*) from place where place <> 'queue') as found,
    (select count(*) from different) as differing,
    (select jsonb_agg(d) from (select * from different order by msg_id limit 5) as d) as sample;
