"""Notification of new messages: functions of schema `pgmq` as calls."""

from __future__ import annotations

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, nothing, record
from pgsluice.client.calls.clients import Operations, method
from pgsluice.client.records import NotifyThrottle


@method(Operations)
def enable_notify_insert(queue_name: str, *, throttle_interval_ms: int = 250) -> Call[None]:
    """Notify listeners when new messages are committed; if already enabled, only set the interval.

    The channel is `pgmq.q_<name in lower case>.INSERT`, or the same with the name as created; the payload is empty.
    Notifications are hints. None is sent for a message within an interval of the last notification, when a delayed
    message becomes visible, or while the server's notification queue is half full; and duplicates occur. So a
    listener reads until the queue is empty, again one interval later, and periodically without a notification.

    The first call waits for open transactions that send to the queue, and blocks new ones meanwhile.

    Args:
        queue_name: An existing queue, spelled as created.
        throttle_interval_ms: Minimum interval between notifications in milliseconds; 0: every sending statement
            notifies.

    Raises:
        ArgumentError: The interval is negative or not whole.
        ServerError: The queue does not exist in this spelling.

    Source: PGMQ 1.13.0 `pgmq.enable_notify_insert`; differences in sql/pgmq/README.md.
    """
    return Call(
        "select pgmq.enable_notify_insert(%s::text, %s::integer)",
        (queue_name, whole(throttle_interval_ms, "throttle_interval_ms", 0)),
        nothing,
        queue_name,
    )


@method(Operations)
def disable_notify_insert(queue_name: str) -> Call[None]:
    """Disable notifications of new messages; do nothing if they are not enabled or the queue does not exist.

    Waits for open transactions that use the queue, and blocks new ones meanwhile.

    Source: PGMQ 1.13.0 `pgmq.disable_notify_insert`.
    """
    return Call("select pgmq.disable_notify_insert(%s::text)", (queue_name,), nothing, queue_name)


@method(Operations)
def update_notify_insert(queue_name: str, *, throttle_interval_ms: int) -> Call[None]:
    """Change the minimum interval between notifications, without a lock on the queue; the next message notifies.

    Args:
        queue_name: A queue with notifications enabled, spelled as created.
        throttle_interval_ms: As for `enable_notify_insert`.

    Raises:
        ArgumentError: The interval is negative or not whole.
        ServerError: The queue does not exist, or has no notifications enabled; the error tells the cases apart.

    Source: PGMQ 1.13.0 `pgmq.update_notify_insert`.
    """
    return Call(
        "select pgmq.update_notify_insert(%s::text, %s::integer)",
        (queue_name, whole(throttle_interval_ms, "throttle_interval_ms", 0)),
        nothing,
        queue_name,
    )


@method(Operations)
def list_notify_insert_throttles() -> Call[list[NotifyThrottle]]:
    """Return every queue with notifications enabled, by name.

    Source: PGMQ 1.13.0 `pgmq.list_notify_insert_throttles`.
    """
    return Call("select * from pgmq.list_notify_insert_throttles()", (), record(NotifyThrottle))
