-- Per account, the amounts in the messages equal those of the transactions.
with sent as (
    select aid, count(*) as orders, sum(delta) as delta from public.pgbench_history group by aid
),
done as (
    select aid, count(*) as orders, sum(delta) as delta from demo.processed group by aid
),
different as (
    select
        coalesce(s.aid, d.aid) as aid,
        s.orders as orders_sent,
        d.orders as orders_processed,
        s.delta as delta_sent,
        d.delta as delta_processed
    from sent as s
    full join done as d on d.aid = s.aid
    where (s.orders, s.delta) is distinct from (d.orders, d.delta)
)
select
    (select count(*) from sent) as expected,
    (select count(*) from done) as found,
    (select count(*) from different) as differing,
    (select jsonb_agg(d) from (select * from different order by aid limit 5) as d) as sample;
