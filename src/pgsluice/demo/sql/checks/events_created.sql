select
    (select accounts from demo.run) as expected,
    (select count(*) from lake_event where ev_type = 'c') as found,
    0 as differing,
    null::jsonb as sample;
