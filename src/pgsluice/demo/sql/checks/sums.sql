-- One sum in six places: TPC-B's invariant, the workers' rows and the lake.
with total (place, amount) as (
    select 'pgbench_history', coalesce(sum(delta), 0) from public.pgbench_history
    union all
    select 'pgbench_accounts', coalesce(sum(abalance), 0) from public.pgbench_accounts
    union all
    select 'pgbench_tellers', coalesce(sum(tbalance), 0) from public.pgbench_tellers
    union all
    select 'pgbench_branches', coalesce(sum(bbalance), 0) from public.pgbench_branches
    union all
    select 'workers', coalesce(sum(delta), 0) from demo.processed
    union all
    select 'lake', coalesce(sum(abalance), 0) from lake_balance
),
history as (
    select amount from total where place = 'pgbench_history'
),
different as (
    select place, amount from total where amount <> (select amount from history)
)
select
    (select amount from history) as expected,
    (select amount from total where place = 'lake') as found,
    (select count(*) from different) as differing,
    (select jsonb_agg(d) from different as d) as sample;
