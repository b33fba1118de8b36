-- Alerts as SQL: each query returns a row per object in trouble, and none if all is well. For programs that run queries and
-- notify, such as a monitoring agent or Grafana with PostgreSQL as data source. A role with sluice_monitor suffices. Adjust the
-- thresholds to your load.

-- name: no maintenance
select 'no process leads maintenance' as summary
where not (sluice.leader('maintenance')).is_active;

-- name: maintenance fails
select format('the maintenance step %s fails since %s', f.task, min(f.failed_since)) as summary
from sluice.failure as f
group by f.task;

-- name: queue not drained
select format('queue %s has had a ready message for %s seconds', q.queue_name, round(q.oldest_ready_s)) as summary
from sluice.list_queue_states() as q
where q.oldest_ready_s > 300;

-- name: queue paused
select format('queue %s is paused since %s by %s: %s', p.queue_name, p.paused_at, p.paused_by, p.pause_reason) as summary
from sluice.queue_options(null::text) as p
where p.paused_at < clock_timestamp() - interval '1 hour';

-- name: worker silent
select format('worker %s of app %s on %s has not reported since %s', w.pid, w.app, w.host, w.reported_at) as summary
from sluice.list_workers() as w
where not w.is_live;

-- name: dead letters
select format('dead letters of queue %s: %s', q.queue_name, q.dead) as summary
from sluice.list_queue_states() as q
where q.dead > 0;

-- name: consumer lags
select format('consumer %s of log %s lags by %s seconds', c.consumer_name, c.log_name, round(c.lag_s)) as summary
from sluice.list_consumers() as c
where c.lag_s > 900
  -- An event of a share group may wait for its retry: see group lags.
  and not exists (
      select
      from pgq.subscriber as s
      join pgq.queue as q on q.queue_id = s.sub_queue
      join pgq.consumer as n on n.co_id = s.sub_consumer
      where s.sub_is_group and q.queue_name = c.log_name and n.co_name = c.consumer_name
  );

-- name: log pinned
select format('consumer %s of log %s keeps %s', c.consumer_name, c.log_name, pg_size_pretty(c.pinned_bytes)) as summary
from sluice.list_consumers() as c
where c.pinned_bytes > 10::bigint * 1024 * 1024 * 1024;

-- name: consumer lost
select format('the position of consumer %s of log %s was dropped: %s', c.consumer_name, c.log_name, c.lost) as summary
from sluice.list_consumers() as c
where c.lost is not null;

-- name: group lags
select format('share group %s of log %s lags by %s seconds', g.group_name, g.log_name, round(g.lag_s)) as summary
from sluice.list_groups() as g
where g.lag_s > 300;

-- name: schedule late
select format('schedule %s was due at %s', s.name, s.due_at) as summary
from sluice.schedule as s
where s.paused_at is null and s.due_at < clock_timestamp() - interval '2 minutes';

-- name: pipeline stopped
select format('pipeline %s of log %s is not running', p.consumer_name, p.log_name) as summary
from sluice.list_pipelines() as p
where not p.is_running;

-- name: old transaction
select format('a transaction has held back the xmin horizon since %s', min(a.xact_start)) as summary
from pg_stat_activity as a
where a.backend_xmin is not null and a.backend_type = 'client backend' and a.xact_start < clock_timestamp() - interval '30 minutes'
having count(*) > 0;
