-- Data that an uninstallation would destroy: one row per queue and log, and for dead letters and dead events if any.
select 'queue', m.queue_name::text from pgmq.meta as m
union all
select 'log', q.queue_name from pgq.queue as q
union all
select 'dead letters of', d.queue_name from sluice.dead_letter as d group by d.queue_name
union all
select 'dead events of', d.queue_name from sluice.dead_event as d group by d.queue_name
union all
select 'schedule', s.name from sluice.schedule as s
order by 1, 2;
