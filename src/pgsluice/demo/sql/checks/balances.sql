with compared as (
    select
        coalesce(a.aid, l.aid) as aid,
        a.abalance as in_database,
        l.abalance as in_lake
    from public.pgbench_accounts as a
    full join lake_balance as l on l.aid = a.aid
),
different as (
    select * from compared where in_database is distinct from in_lake
)
select
    (select count(*) from public.pgbench_accounts) as expected,
    (select count(*) from lake_balance) as found,
    (select count(*) from different) as differing,
    (select jsonb_agg(d) from (select * from different order by aid limit 5) as d) as sample;
