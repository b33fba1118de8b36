-- For the progress display and the waits; cheap enough for two calls per second.
select
    (select count(*) from public.pgbench_history) as transactions,
    (select count(*) from demo.processed) as processed,
    (select count(*) from pgmq.q_orders) as queued,
    (select count(*) from sluice.dead_letter where queue_name = 'orders') as dead;
