"""Settings of one work queue, which the functions `sluice.list_…` return for all, as a call."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import LiteralString, NamedTuple

from pgsluice.client.calls.call import Call, one


class QueueSettings(NamedTuple):
    """Settings of a queue; those that it does not have are None.

    Attributes:
        max_attempts: As in `QueueRetryPolicy`, as are the next six attributes.
        retention: Minimum age of archived messages that maintenance deletes.
        window: Deduplication window.
        throttle_interval_ms: Minimum time between two notifications.
        paused_at: Time of the pause.
        paused_by: Role and application that paused the queue.
        reason: Reason of the pause.
    """

    max_attempts: int
    backoff: str
    backoff_base: timedelta
    backoff_max: timedelta
    backoff_jitter: bool
    backoff_factor: float
    is_default: bool
    retention: timedelta | None
    window: timedelta | None
    throttle_interval_ms: int | None
    paused_at: datetime | None
    paused_by: str | None
    reason: str | None


def queue_settings(queue_name: str) -> Call[QueueSettings]:
    """Return the settings of a queue.

    Args:
        queue_name: An existing queue, as it was created.
    """
    sql: LiteralString = (
        "select p.max_attempts, p.backoff, p.backoff_base, p.backoff_max, p.backoff_jitter, p.backoff_factor, "
        "p.is_default, r.archive_retention, d.deduplication_window, t.throttle_interval_ms, "
        "q.paused_at, q.paused_by, q.reason "
        "from sluice.list_retry_policies() as p "
        "left join sluice.retention as r on r.queue_name = p.queue_name "
        "left join sluice.deduplication as d on d.queue_name = p.queue_name "
        "left join pgmq.notify_insert_throttle as t on t.queue_name = p.queue_name "
        "left join sluice.queue_pause as q on q.queue_name = p.queue_name "
        "where p.queue_name = %s::text"
    )
    return Call(sql, (queue_name,), one(QueueSettings), queue_name)
