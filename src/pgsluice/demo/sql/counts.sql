-- The counts of the result.
select
    (select accounts from demo.run) as accounts,
    (select count(*) from public.pgbench_history) as transactions,
    (select count(*) from public.pgbench_history) + 1 as messages_sent,
    (select count(*) from demo.processed) as processed,
    (select count(*) from demo.processed where attempt > 1) as retried,
    (select count(*) from pgmq.a_orders) as archived,
    (select count(*) from sluice.dead_letter where queue_name = 'orders') as dead,
    (select count(*) from demo.change) as events;
