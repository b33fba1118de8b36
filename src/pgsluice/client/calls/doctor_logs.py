"""Symptoms of event logs, share groups, pipelines, schedules and maintenance; see `doctor.Symptom`.

The role sluice_monitor can call them, unless a docstring names another role.
"""

from __future__ import annotations

from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.calls.doctor import Symptom


def log_rows() -> Call[list[Symptom]]:
    """Return the logs whose ticks, numbers, positions or claims were changed by hand."""
    return Call(
        "select 'fail', coalesce('log ' || quote_literal(p.log_name) || ': ', '') || p.problem, p.hint "
        "from sluice.list_log_problems() as p",
        (),
        record(Symptom),
    )


def captures() -> Call[list[Symptom]]:
    """Return the problems of captured tables, and of tables with triggers of PgQ."""
    return Call(
        "select case p.kind when 'malformed' then 'fail' else 'warn' end, p.problem, p.hint "
        "from sluice.list_capture_problems(null::text) as p",
        (),
        record(Symptom),
    )


def late_ticks(late_s: float) -> Call[list[Symptom]]:
    """Return the logs without a tick for this time that no process ticks, and those with a paused ticker."""
    return Call(
        """
        select case when has_consumers.value then 'fail' else 'warn' end,
            format(
                'log %%L: %%s, the last was %%s ago', i.queue_name,
                case when i.queue_ticker_paused then 'ticks are paused' else 'no process ticks' end,
                date_trunc('second', i.ticker_lag)
            ),
            case when i.queue_ticker_paused
                then format('pgsluice log set %%L ticker_paused=false', i.queue_name)
                else 'pgsluice maintain'
            end
        from pgq.get_queue_info() as i
        join pgq.queue as q on q.queue_name = i.queue_name
        cross join lateral (
            select exists (select from pgq.subscriber as s where s.sub_queue = q.queue_id)
        ) as has_consumers (value)
        where not i.queue_external_ticker
          and i.ticker_lag > make_interval(secs => %s)
          and exists (select from sluice.explain_ticks(q.queue_name) as t where t.cause in ('no tick', 'ticker paused'))
        order by i.queue_name
        """,
        (late_s,),
        record(Symptom),
    )


def future_ticks(ahead_s: float) -> Call[list[Symptom]]:
    """Return the logs whose last tick is in the future by this time."""
    return Call(
        """
        select 'warn',
            format(
                'log %%L: its last tick is %%s in the future: the clock of the server was set back', i.queue_name,
                date_trunc('second', -i.ticker_lag)
            ),
            'pgsluice log tick'
        from pgq.get_queue_info() as i
        where i.ticker_lag < -make_interval(secs => %s)
        order by i.queue_name
        """,
        (ahead_s,),
        record(Symptom),
    )


def consumers(idle_s: float, pinned_bytes: int, unread_s: float) -> Call[list[Symptom]]:
    """Return the consumers that do not read and keep events, those that lost events, and missing keepers."""
    return Call(
        """
        with least as (select %s::double precision as idle, %s::bigint as pinned, %s::double precision as unread)
        select
            case when c.lost is null and coalesce(c.pinned_bytes, 0) <= 10 * least.pinned then 'warn' else 'fail' end,
            case
                when c.lost is not null
                    then format('log %%L dropped events of consumer %%L: %%s', c.log_name, c.consumer_name, c.lost)
                when c.last_tick is null
                    then format(
                        'log %%L keeps events for consumer %%L, which is not registered', c.log_name, c.consumer_name
                    )
                else format(
                    'consumer %%L of log %%L has not read for %%s; unread events: %%s, keeps %%s', c.consumer_name,
                    c.log_name, date_trunc('second', make_interval(secs => c.idle_s)), c.lag_events,
                    pg_size_pretty(c.pinned_bytes)
                )
            end,
            case
                when c.lost is not null
                    then format(
                        'select pgq.register_consumer_at(%%1$L, %%2$L, (select min(t.tick_id) from pgq.tick as t '
                        'join pgq.queue as q on q.queue_id = t.tick_queue where q.queue_name = %%1$L))'
                        '  -- the oldest tick that is kept', c.log_name, c.consumer_name
                    )
                when c.last_tick is null
                    then format('select pgq.register_consumer(%%L, %%L)', c.log_name, c.consumer_name)
                else format('pgsluice log unregister %%L %%L', c.log_name, c.consumer_name)
            end
        from sluice.list_consumers(null::text) as c, least
        where c.lost is not null
           or c.is_keeper and c.last_tick is null
           or c.idle_s > least.idle and c.pinned_bytes > least.pinned
           or c.idle_s > least.unread and c.lag_events > 0
        order by c.pinned_bytes desc nulls last, c.log_name, c.consumer_name
        """,
        (idle_s, pinned_bytes, unread_s),
        record(Symptom),
    )


def share_groups(unclaimed_s: float) -> Call[list[Symptom]]:
    """Return the share groups that lost events, and those with events that no consumer has claimed for this time."""
    return Call(
        """
        select case when g.lost is null then 'warn' else 'fail' end,
            case when g.lost is null
                then format(
                    'group %%L of log %%L: unclaimed events: %%s, the oldest for %%s', g.group_name,
                    g.log_name, g.lag_events, date_trunc('second', make_interval(secs => g.lag_s))
                )
                else format('group %%L of log %%L lost events: %%s', g.group_name, g.log_name, g.lost)
            end,
            case when g.lost is null
                then format('pgsluice worker run MODULE:APP --queues %%L', g.log_name)
                else format('pgsluice group drop %%L %%L', g.log_name, g.group_name)
            end
        from sluice.list_groups(null::text, null::text) as g
        where g.lost is not null
           or g.lag_events > 0 and g.leased = 0 and g.retrying = 0 and g.lag_s > %s
        order by g.log_name, g.group_name
        """,
        (unclaimed_s,),
        record(Symptom),
    )


def event_types(waiting_s: float) -> Call[list[Symptom]]:
    """Return event types that have waited for this time for a handler that no live worker runs, and those without a
    handler whose events workers accepted for the first time within a day.
    """
    return Call(
        """
        select 'warn',
            format(
                'group %%L of log %%L: events of type %%L have waited since %%s for %%s', g.group_name, g.log_name,
                t.ev_type, date_trunc('second', t.since),
                case when t.handler is null then 'a worker that declares it'
                    else format('handler %%s of app %%s, which no live worker runs', t.handler, t.app)
                end
            ),
            case when t.handler is null then format('pgsluice group show %%L %%L', g.log_name, g.group_name)
                else format('pgsluice worker run MODULE:APP --handlers %%L', t.handler)
            end
        from sluice.list_groups(null::text, null::text) as g
        cross join lateral sluice.list_types(g.log_name, g.group_name) as t
        where t.waiting + t.waiting_keys > 0
          and coalesce(t.workers, 0) = 0
          and t.since < clock_timestamp() - make_interval(secs => %s)
        union all
        select 'warn',
            format(
                'group %%L of log %%L: no handler is declared for type %%L; events of it that workers accepted: %%s',
                g.group_name, g.log_name, u.ev_type, u.accepted
            ),
            format('pgsluice group set %%L %%L unhandled=leave', g.log_name, g.group_name)
        from sluice.group_type as u
        join sluice.share_group as g using (group_id)
        where not u.is_handled
          and g.unhandled = 'accept'
          and u.first_accepted_at > clock_timestamp() - interval '1 day'
        order by 2
        limit 1000
        """,
        (waiting_s,),
        record(Symptom),
    )


def parked_group_keys() -> Call[list[Symptom]]:
    """Return the parked keys of share groups; needs pgq_reader."""
    return Call(
        """
        select 'warn', format('group %%L of log %%L: a key has been parked since %%s', g.group_name, g.log_name,
                date_trunc('second', b.since)),
            format('pgsluice group unpark %%L %%L %%L', g.log_name, g.group_name, b.key)
        from sluice.list_groups(null::text, null::text) as g
        cross join lateral sluice.list_blocked_keys(g.log_name, g.group_name) as b
        where g.when_waiting = 'park' and b.reason = 'parked'
        order by b.since
        limit 1000
        """,
        (),
        record(Symptom),
    )


def pipelines(stopped_s: float, gone_s: float) -> Call[list[Symptom]]:
    """Return the pipelines that are behind and have not run for this time, and recent ones without a consumer."""
    return Call(
        """
        select 'warn',
            format(
                'pipeline %%s of log %%L into %%s has not run since %%s; unread events: %%s', p.kind,
                p.log_name, p.lake, date_trunc('second', coalesce(p.reported_at, p.held_since)), p.lag_events
            ),
            format('pgsluice pipeline run %%s --log %%L --lake %%L', p.kind, p.log_name, p.lake)
        from sluice.list_pipelines() as p
        where not p.is_running
          and p.lag_events > 0
          and coalesce(p.reported_at, p.held_since) < clock_timestamp() - make_interval(secs => %s)
        union all
        select 'warn',
            format(
                'consumer %%L of log %%L, which feeds %%s, is gone: events are missing there', p.consumer_name,
                q.queue_name, p.lake
            ),
            format('delete from sluice.process where process_id = %%L', p.process_id)
        from sluice.process as p
        join pgq.queue as q on q.queue_id = p.queue_id
        where p.started_at > clock_timestamp() - make_interval(secs => %s)
          and not exists (
              select
              from pgq.subscriber as s
              join pgq.consumer as c on c.co_id = s.sub_consumer
              where s.sub_queue = p.queue_id and c.co_name = p.consumer_name
          )
        order by 2
        """,
        (stopped_s, gone_s),
        record(Symptom),
    )


def schedules(late_s: float) -> Call[list[Symptom]]:
    """Return the schedules that fail, and those that are late by this time; needs sluice_reader."""
    return Call(
        """
        select 'warn',
            case when s.error is null
                then format('schedule %%L is late by %%s', s.name, date_trunc('second', clock_timestamp() - s.due_at))
                else format('schedule %%L fails: %%s', s.name, left(split_part(s.error, chr(10), 1), 200))
            end,
            case when s.error is null then 'pgsluice maintain' else format('pgsluice schedule drop %%L', s.name) end
        from sluice.list_schedules() as s
        where s.paused_at is null
          and (s.error is not null or s.due_at < clock_timestamp() - make_interval(secs => %s))
        order by s.name
        """,
        (late_s,),
        record(Symptom),
    )


def leader() -> Call[str | None]:
    """Return the pid of the session that leads maintenance, or None."""
    return Call(
        "select case when l.is_active then 'pid ' || l.candidate end from sluice.leader('maintenance') as l",
        (),
        scalar,
    )


def overdue_maintenance(overdue_s: float) -> Call[list[Symptom]]:
    """Return the partitioned tables that no process has maintained for this time."""
    return Call(
        """
        select 'fail',
            format(
                'partitions of pgmq.%%I have not been maintained since %%s', p.table_name,
                date_trunc('second', p.maintained_at)
            ),
            'pgsluice maintain'
        from sluice.partitioned_table as p
        join pgmq.meta as m on m.queue_name = p.queue_name
        where greatest(p.maintained_at, m.created_at) < clock_timestamp() - make_interval(secs => %s)
        order by p.table_name
        """,
        (overdue_s,),
        record(Symptom),
    )


def failures() -> Call[list[Symptom]]:
    """Return the maintenance steps whose last run failed, of queues and logs that exist; needs sluice_admin."""
    return Call(
        """
        select 'warn',
            format(
                'maintenance step %%s%%s has failed since %%s: %%s', f.task,
                case when f.queue_name is null then '' else format(' of %%L', f.queue_name) end,
                date_trunc('second', f.failed_since),
                left(split_part(f.error, chr(10), 1), 200)
            ),
            'pgsluice maintain --once'
        from sluice.list_failures() as f
        where f.queue_name is null
           or exists (select from pgmq.meta as m where lower(m.queue_name) = lower(f.queue_name))
           or exists (select from pgq.queue as q where q.queue_name = f.queue_name)
        order by f.failed_since
        """,
        (),
        record(Symptom),
    )
