"""The functions of schema `pgmq` that announce new messages, as calls; argument names are theirs."""

from __future__ import annotations

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, nothing, record
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.records import NotifyThrottle


@method(WorkQueue)
def enable_notify_insert(queue_name: str, *, throttle_interval_ms: int = 250) -> Call[None]:
    """Notify listeners of new messages, when they are committed; enabled again, it only sets the interval.

    Listen on `pgmq.q_<name in lower case>.INSERT`, or on the same with the name as it was created; the payload is
    empty. A notification says: look again. It may be missing (a message sent less than an interval after the last
    notification has none of its own, one that becomes visible later has none at that time, and none is sent while
    the server's queue of notifications is half full), and it may come twice. So a listener reads until the queue
    is empty, again one interval later, and from time to time without any notification.

    The first time, it waits for open transactions that send to the queue, and new ones wait for it.

    Args:
        queue_name: An existing queue, in the upper and lower case of its creation.
        throttle_interval_ms: Milliseconds between two notifications, at least; 0: every statement that sends
            notifies.

    Raises:
        ArgumentError: The interval is negative or not whole.
        ServerError: The queue does not exist, or not in this spelling.

    Source: PGMQ 1.13.0 `pgmq.enable_notify_insert`; differences in sql/pgmq/README.md.
    """
    return Call(
        "select pgmq.enable_notify_insert(%s::text, %s::integer)",
        (queue_name, whole(throttle_interval_ms, "throttle_interval_ms", 0)),
        nothing,
        queue_name,
    )


@method(WorkQueue)
def disable_notify_insert(queue_name: str) -> Call[None]:
    """Notify nobody of new messages any more; do nothing when nobody was, or when the queue does not exist.

    It waits for open transactions that use the queue, and others wait for it.

    Source: PGMQ 1.13.0 `pgmq.disable_notify_insert`.
    """
    return Call("select pgmq.disable_notify_insert(%s::text)", (queue_name,), nothing, queue_name)


@method(WorkQueue)
def update_notify_insert(queue_name: str, *, throttle_interval_ms: int) -> Call[None]:
    """Change how often listeners are notified at most, without a lock on the queue; the next message notifies.

    Args:
        queue_name: A queue that notifies, in the upper and lower case of its creation.
        throttle_interval_ms: As for `enable_notify_insert`.

    Raises:
        ArgumentError: The interval is negative or not whole.
        ServerError: The queue does not exist, or does not notify; the message says which.

    Source: PGMQ 1.13.0 `pgmq.update_notify_insert`.
    """
    return Call(
        "select pgmq.update_notify_insert(%s::text, %s::integer)",
        (queue_name, whole(throttle_interval_ms, "throttle_interval_ms", 0)),
        nothing,
        queue_name,
    )


@method(WorkQueue)
def list_notify_insert_throttles() -> Call[list[NotifyThrottle]]:
    """Return every queue that notifies, by name.

    Source: PGMQ 1.13.0 `pgmq.list_notify_insert_throttles`.
    """
    return Call("select * from pgmq.list_notify_insert_throttles()", (), record(NotifyThrottle))
