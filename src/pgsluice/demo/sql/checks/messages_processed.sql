-- Each archived message was processed exactly once, and no other was.
with done as (
    select msg_id, count(*) as times from demo.processed group by msg_id
),
kept as (
    select msg_id, count(*) as times from pgmq.a_orders group by msg_id
),
different as (
    select
        coalesce(k.msg_id, d.msg_id) as msg_id,
        coalesce(k.times, 0) as times_archived,
        coalesce(d.times, 0) as times_processed
    from kept as k
    full join done as d on d.msg_id = k.msg_id
    where k.times is distinct from 1 or d.times is distinct from 1
)
select
    (select count(*) from pgmq.a_orders) as expected,
    (select count(*) from demo.processed) as found,
    (select count(*) from different) as differing,
    (select jsonb_agg(d) from (select * from different order by msg_id limit 5) as d) as sample;
