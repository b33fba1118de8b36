-- The poison message only.
with different as (
    select
        coalesce(d.msg_id, r.poison_msg_id) as msg_id,
        d.reason,
        d.error
    from (select * from sluice.dead_letter where queue_name = 'orders') as d
    full join demo.run as r on r.poison_msg_id = d.msg_id
    where d.msg_id is null or r.poison_msg_id is null
)
select
    1 as expected,
    (select count(*) from sluice.dead_letter where queue_name = 'orders') as found,
    (select count(*) from different) as differing,
    (select jsonb_agg(d) from (select * from different order by msg_id limit 5) as d) as sample;
