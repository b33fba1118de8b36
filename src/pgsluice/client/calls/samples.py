"""Figures of queues, consumers and share groups, now and over time, as calls."""

from __future__ import annotations

from datetime import datetime, timedelta

from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.calls.clients import Operations, method
from pgsluice.client.group_records import GroupSettings
from pgsluice.client.sample_records import NewestSample, QueueState, Sample


@method(Operations)
def list_queue_states(*, after_name: str = "", qty: int = 1000) -> Call[list[QueueState]]:
    """Return the figures of queues by name, at a bounded cost per queue.

    Args:
        after_name: Only queues whose name sorts after this one; for paging.
        qty: Maximum number of queues.

    Source: `sluice.list_queue_states`.
    """
    return Call(
        "select * from sluice.list_queue_states(%s::text, %s::integer)",
        (after_name, qty),
        record(QueueState),
    )


@method(Operations)
def take_samples() -> Call[int]:
    """Append a sample of each queue, consumer and share group, and of all queues together.

    Maintenance does so every 10 seconds.

    Returns:
        The number of samples, without that of all queues; 0 if samples were taken in the last five seconds, or
        another session is taking them.

    Source: `sluice.take_samples`.
    """
    return Call("select sluice.take_samples()", (), scalar)


@method(Operations)
def list_samples(
    kind: str,
    name: str,
    *,
    since: datetime | None = None,
    reader_name: str | None = None,
    until: datetime | None = None,
    every: timedelta | None = None,
) -> Call[list[Sample]]:
    """Return samples by reader and time: every 10 seconds of the last hour, every minute of the last day, every 15
    minutes of the last month.

    Args:
        kind: `queue`, `consumer` or `group`; or `queues`: all queues together, in sums.
        name: Name of the queue, or of the log of consumers and share groups; of all queues, an empty text.
        since: Start; None: an hour ago. It selects the interval, as above.
        reader_name: Only this consumer or share group.
        until: Only earlier samples.
        every: The interval, rounded down to 15 minutes, a minute or 10 seconds; None: selected by `since`.

    Source: `sluice.list_samples`.
    """
    return Call(
        "select * from sluice.list_samples("
        "%s::text, %s::text, %s::timestamptz, %s::text, %s::timestamptz, %s::interval)",
        (kind, name, since, reader_name, until, every),
        record(Sample),
    )


@method(Operations)
def list_newest_samples(kind: str) -> Call[list[NewestSample]]:
    """Return the newest sample of each queue, consumer or share group, by name, if it is at most five minutes old.

    Args:
        kind: `queue`, `consumer` or `group`.

    Source: `sluice.list_newest_samples`.
    """
    return Call("select * from sluice.list_newest_samples(%s::text)", (kind,), record(NewestSample))


def count_queues() -> Call[int]:
    return Call("select count(*) from pgmq.meta", (), scalar)


def list_group_settings(log_name: str) -> Call[list[GroupSettings]]:
    """Return the settings of the share groups of a log by name, without their figures, which take time to read."""
    return Call(
        "select g.group_name, g.lease, g.max_attempts, g.max_deliveries, g.backoff, g.backoff_base, g.backoff_max, "
        "g.key, g.when_waiting, g.lost, g.created_at "
        "from sluice.share_group as g where g.log_name = %s::text order by g.group_name",
        (log_name,),
        record(GroupSettings),
    )


def leads() -> Call[bool]:
    """True if a process leads the maintenance of this database."""
    return Call("select (sluice.leader('maintenance')).is_active", (), scalar)


def xmin_age_s() -> Call[float]:
    """Return the age of the oldest transaction that holds back the xmin horizon, in seconds; needs pg_read_all_stats to
    see the transactions of other roles.
    """
    return Call(
        "select coalesce(max(extract(epoch from clock_timestamp() - a.xact_start)), 0)::double precision "
        "from pg_stat_activity as a where a.backend_xmin is not null and a.pid <> pg_backend_pid() "
        "and a.backend_type = 'client backend'",
        (),
        scalar,
    )


def schedule_lateness() -> Call[list[tuple[str, float]]]:
    """Return the name and the seconds past its due time of each schedule that is not paused, the latest first."""
    return Call(
        "select s.name, greatest(0, extract(epoch from clock_timestamp() - s.due_at))::double precision "
        "from sluice.schedule as s where s.paused_at is null and s.due_at is not null order by s.due_at limit 1000",
        (),
        list,
    )


def failing_steps() -> Call[list[tuple[str, int]]]:
    """Return the number of maintenance steps that failed at their last attempt, by task."""
    return Call("select f.task, count(*) from sluice.failure as f group by f.task", (), list)


def limit_statements(at_most_ms: int) -> Call[str]:
    """Set statement_timeout for this transaction."""
    return Call(
        "select set_config('statement_timeout', %s::text, true)", (str(at_most_ms),), scalar
    )


def queue_state(queue_name: str) -> Call[list[QueueState]]:
    """Return the figures of one queue, by its name as it was created; none while it is locked."""
    return Call(
        "select s.* from sluice.list_queue_states("
        "coalesce((select max(m.queue_name) from pgmq.meta as m where m.queue_name < %s::text), ''), 1) as s "
        "where s.queue_name = %s::text",
        (queue_name, queue_name),
        record(QueueState),
    )
