-- All messages that fail on their first attempt were processed on a later one.
with different as (
    select msg_id, attempt from demo.processed where fails_first and attempt < 2
)
select
    (select count(*) from demo.processed where fails_first) as expected,
    (select count(*) from demo.processed where fails_first and attempt >= 2) as found,
    (select count(*) from different) as differing,
    (select jsonb_agg(d) from (select * from different order by msg_id limit 5) as d) as sample;
