"""Pauses of work queues: functions of schema `sluice` as calls."""

from __future__ import annotations

from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.operation_records import PausedQueue


@method(WorkQueue)
def pause_queue(queue_name: str, *, reason: str | None = None) -> Call[bool]:
    """Pause a queue until `resume_queue`: workers claim none of its messages, and finish those they have claimed.

    `read` and the other functions of PGMQ are not affected, nor are producers.

    Args:
        queue_name: An existing queue.
        reason: Shown by `list_paused_queues`; for a queue that is paused already it replaces the earlier reason.

    Returns:
        False when the queue is already paused.

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.pause_queue`.
    """
    return Call(
        "select sluice.pause_queue(%s::text, %s::text)", (queue_name, reason), scalar, queue_name
    )


@method(WorkQueue)
def resume_queue(queue_name: str) -> Call[bool]:
    """Resume a paused queue, and wake waiting workers.

    Returns:
        False when the queue is not paused.

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.resume_queue`.
    """
    return Call("select sluice.resume_queue(%s::text)", (queue_name,), scalar, queue_name)


@method(WorkQueue)
def list_paused_queues() -> Call[list[PausedQueue]]:
    """Return the paused queues, by name.

    Source: `sluice.list_paused_queues`.
    """
    return Call("select * from sluice.list_paused_queues()", (), record(PausedQueue))
