-- Queues and logs, each with the statement that drops it.
select 'select pgmq.drop_queue(%s::text)', m.queue_name::text from pgmq.meta as m where m.queue_name !~ E'\\$|;|--|'''
union all
select 'select pgq.drop_queue(%s::text, true)', q.queue_name from pgq.queue as q
order by 1, 2;
