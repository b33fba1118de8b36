"""Reading of FIFO groups: functions of schema `pgmq` as calls.

A message's group is its header `x-pgmq-group`; messages without it form one group. A group is delivered in commit
order, lowest `msg_id` first: while one of its messages is in flight or delayed, later ones are not delivered.
"""

from __future__ import annotations

from pgsluice.client.calls.arguments import claim_parameters, poll_parameters
from pgsluice.client.calls.call import Call, claim, nothing
from pgsluice.client.calls.clients import Operations, WorkQueue, method
from pgsluice.client.records import Message


@method(Operations)
def create_fifo_index(queue_name: str) -> Call[None]:
    """Create the indexes for the `read_grouped` methods; do nothing if they exist.

    Without the indexes, these methods scan the whole queue on each call. With them, each send costs a little more.
    Maintenance creates them after the first such call, unless the queue has less than 1 MB or more than 256 MB.
    Takes a SHARE lock on the table: producers and readers wait until the indexes are built.

    Source: PGMQ 1.13.0 `pgmq.create_fifo_index`; differences in sql/pgmq/README.md.
    """
    return Call("select pgmq.create_fifo_index(%s::text)", (queue_name,), nothing, queue_name)


@method(Operations)
def create_fifo_indexes_all() -> Call[None]:
    """Call `create_fifo_index` for every queue, by name.

    Source: PGMQ 1.13.0 `pgmq.create_fifo_indexes_all`.
    """
    return Call("select pgmq.create_fifo_indexes_all()", (), nothing)


@method(WorkQueue)
def read_grouped(queue_name: str, vt: int = 30, qty: int = 1) -> Call[list[Message]]:
    """Read up to `qty` messages, starting with the group whose first message is oldest.

    Args:
        queue_name: An existing queue.
        vt: Visibility timeout in seconds, 0 or more; with 0, other readers can read the same messages.
        qty: The most to read, 1 or more.

    Returns:
        0 to `qty` messages, lowest `msg_id` first. Skips groups that another transaction is reading.

    Raises:
        ArgumentError: `vt` or `qty` is out of range. Nothing was read.

    Source: PGMQ 1.13.0 `pgmq.read_grouped`; differences in sql/pgmq/README.md.
    """
    return claim(
        "pgmq.read_grouped(%s::text, %s::integer, %s::integer)",
        claim_parameters(queue_name, vt, qty),
        queue_name,
    )


@method(WorkQueue)
def read_grouped_rr(queue_name: str, vt: int = 30, qty: int = 1) -> Call[list[Message]]:
    """Read up to `qty` messages round-robin: the first of each group, then the second of each, and so on.

    Args:
        queue_name: An existing queue.
        vt: As for `read_grouped`.
        qty: As for `read_grouped`.

    Returns:
        0 to `qty` messages in round-robin order, the oldest group first in each round.

    Raises:
        ArgumentError: `vt` or `qty` is out of range. Nothing was read.

    Source: PGMQ 1.13.0 `pgmq.read_grouped_rr`; differences in sql/pgmq/README.md.
    """
    return claim(
        "pgmq.read_grouped_rr(%s::text, %s::integer, %s::integer)",
        claim_parameters(queue_name, vt, qty),
        queue_name,
        keeps_order=True,
    )


@method(WorkQueue)
def read_grouped_head(queue_name: str, vt: int = 30, qty: int = 1) -> Call[list[Message]]:
    """Read the first message of up to `qty` groups.

    Args:
        queue_name: An existing queue.
        vt: As for `read_grouped`.
        qty: The most to read, 1 or more, each from a different group.

    Returns:
        0 to `qty` messages, lowest `msg_id` first.

    Raises:
        ArgumentError: `vt` or `qty` is out of range. Nothing was read.

    Source: PGMQ 1.13.0 `pgmq.read_grouped_head`; differences in sql/pgmq/README.md.
    """
    return claim(
        "pgmq.read_grouped_head(%s::text, %s::integer, %s::integer)",
        claim_parameters(queue_name, vt, qty),
        queue_name,
    )


@method(WorkQueue)
def read_grouped_with_poll(
    queue_name: str,
    vt: int = 30,
    qty: int = 1,
    *,
    max_poll_seconds: int = 5,
    poll_interval_ms: int = 100,
) -> Call[list[Message]]:
    """Read as `read_grouped` does, and wait in the server while nothing is readable.

    The connection is occupied during the wait, as with `read_with_poll`.

    Args:
        queue_name: An existing queue.
        vt: As for `read_grouped`.
        qty: As for `read_grouped`.
        max_poll_seconds: The longest wait in seconds, 1 or more.
        poll_interval_ms: Poll interval in milliseconds, 1 or more.

    Returns:
        As `read_grouped`; empty after `max_poll_seconds` without messages.

    Raises:
        ArgumentError: A number is out of range. Nothing was read.

    Source: PGMQ 1.13.0 `pgmq.read_grouped_with_poll`.
    """
    return claim(
        "pgmq.read_grouped_with_poll(%s::text, %s::integer, %s::integer, %s::integer, %s::integer)",
        poll_parameters(queue_name, vt, qty, max_poll_seconds, poll_interval_ms),
        queue_name,
    )


@method(WorkQueue)
def read_grouped_rr_with_poll(
    queue_name: str,
    vt: int = 30,
    qty: int = 1,
    *,
    max_poll_seconds: int = 5,
    poll_interval_ms: int = 100,
) -> Call[list[Message]]:
    """Read as `read_grouped_rr` does, and wait in the server while nothing is readable.

    Args:
        queue_name: An existing queue.
        vt: As for `read_grouped`.
        qty: As for `read_grouped`.
        max_poll_seconds: As for `read_grouped_with_poll`.
        poll_interval_ms: As for `read_grouped_with_poll`.

    Returns:
        As `read_grouped_rr`; empty after `max_poll_seconds` without messages.

    Raises:
        ArgumentError: A number is out of range. Nothing was read.

    Source: PGMQ 1.13.0 `pgmq.read_grouped_rr_with_poll`.
    """
    return claim(
        "pgmq.read_grouped_rr_with_poll("
        "%s::text, %s::integer, %s::integer, %s::integer, %s::integer)",
        poll_parameters(queue_name, vt, qty, max_poll_seconds, poll_interval_ms),
        queue_name,
        keeps_order=True,
    )


@method(WorkQueue)
def read_grouped_head_with_poll(
    queue_name: str,
    vt: int = 30,
    qty: int = 1,
    *,
    max_poll_seconds: int = 5,
    poll_interval_ms: int = 100,
) -> Call[list[Message]]:
    """Read as `read_grouped_head` does, and wait in the server while nothing is readable.

    Args:
        queue_name: An existing queue.
        vt: As for `read_grouped`.
        qty: As for `read_grouped_head`.
        max_poll_seconds: As for `read_grouped_with_poll`.
        poll_interval_ms: As for `read_grouped_with_poll`.

    Returns:
        As `read_grouped_head`; empty after `max_poll_seconds` without messages.

    Raises:
        ArgumentError: A number is out of range. Nothing was read.

    Source: PGMQ 1.13.0 `pgmq.read_grouped_head_with_poll`.
    """
    return claim(
        "pgmq.read_grouped_head_with_poll("
        "%s::text, %s::integer, %s::integer, %s::integer, %s::integer)",
        poll_parameters(queue_name, vt, qty, max_poll_seconds, poll_interval_ms),
        queue_name,
    )
