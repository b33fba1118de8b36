-- The lake holds every event of the log exactly once, and no others.
with lake as (
    select ev_id, min(ev_type) as ev_type, count(*) as times from lake_event group by ev_id
),
compared as (
    select
        coalesce(c.ev_id, l.ev_id) as ev_id,
        c.ev_type as in_log,
        l.ev_type as in_lake,
        coalesce(l.times, 0) as times_in_lake
    from demo.change as c
    full join lake as l on l.ev_id = c.ev_id
),
different as (
    select * from compared where times_in_lake <> 1 or in_log is distinct from in_lake
)
select
    (select count(*) from demo.change) as expected,
    (select count(*) from lake_event) as found,
    (select count(*) from different) as differing,
    (select jsonb_agg(d) from (select * from different order by ev_id limit 5) as d) as sample;
