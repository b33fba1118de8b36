select
    (select count(*) from public.pgbench_history) as expected,
    (select count(*) from lake_event where ev_type = 'u') as found,
    0 as differing,
    null::jsonb as sample;
