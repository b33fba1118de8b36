-- Migrates the events that wait in the retry queue.
insert into pgq.retry_entry (
    ev_retry_after, ev_queue, ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
)
select r.ev_retry_after, r.ev_queue, r.ev_id, r.ev_time, r.ev_owner, r.ev_retry, r.ev_type, r.ev_data,
    r.ev_extra1, r.ev_extra2, r.ev_extra3, r.ev_extra4
from pgq.adopted_retry_queue as r
order by r.ev_retry_after;
drop table pgq.adopted_retry_queue;

-- The rights on each log's tables are those of a new log.
select pgq.grant_perms(q.queue_name) from pgq.queue as q;
