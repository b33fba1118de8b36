"""The readers of FIFO groups of schema `pgmq` as calls; argument names are theirs.

A message's group is its header `x-pgmq-group`; all without it are one group. A group is delivered in the order in
which its messages were committed, lowest `msg_id` first among those: while one of its messages is in flight or
delayed, none behind it is delivered.
"""

from __future__ import annotations

from pgsluice.client.calls.arguments import claim_parameters, poll_parameters
from pgsluice.client.calls.call import Call, claim, nothing
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.records import Message


@method(WorkQueue)
def create_fifo_index(queue_name: str) -> Call[None]:
    """Let the `read_grouped` methods find a group's messages by indexes; do nothing when they exist.

    Without them these methods are right and each call reads the whole queue. With them each send costs a little
    more. It takes the table's share lock: senders and readers wait until the indexes are built.

    Source: PGMQ 1.13.0 `pgmq.create_fifo_index`; differences in sql/pgmq/README.md.
    """
    return Call("select pgmq.create_fifo_index(%s::text)", (queue_name,), nothing, queue_name)


@method(WorkQueue)
def create_fifo_indexes_all() -> Call[None]:
    """Call `create_fifo_index` for every queue, by name.

    Source: PGMQ 1.13.0 `pgmq.create_fifo_indexes_all`.
    """
    return Call("select pgmq.create_fifo_indexes_all()", (), nothing)


@method(WorkQueue)
def read_grouped(queue_name: str, vt: int, qty: int = 1) -> Call[list[Message]]:
    """Claim up to `qty` messages, those of the group with the oldest first message first.

    Args:
        queue_name: An existing queue.
        vt: Visibility timeout, seconds, 0 or more; with 0 another reader may take them too.
        qty: The most to claim, 1 or more.

    Returns:
        0 to `qty` messages, lowest `msg_id` first. Groups that another transaction is reading are passed over.

    Raises:
        ArgumentError: `vt` or `qty` is out of range. Nothing was claimed.

    Source: PGMQ 1.13.0 `pgmq.read_grouped`; differences in sql/pgmq/README.md.
    """
    return claim(
        "pgmq.read_grouped(%s::text, %s::integer, %s::integer)",
        claim_parameters(queue_name, vt, qty),
        queue_name,
    )


@method(WorkQueue)
def read_grouped_rr(queue_name: str, vt: int, qty: int = 1) -> Call[list[Message]]:
    """Claim up to `qty` messages by turns: the first of each group, then the second of each, and so on.

    Args:
        queue_name: An existing queue.
        vt: As for `read_grouped`.
        qty: As for `read_grouped`.

    Returns:
        0 to `qty` messages in the order of the turns; the oldest group first in each.

    Raises:
        ArgumentError: `vt` or `qty` is out of range. Nothing was claimed.

    Source: PGMQ 1.13.0 `pgmq.read_grouped_rr`; differences in sql/pgmq/README.md.
    """
    return claim(
        "pgmq.read_grouped_rr(%s::text, %s::integer, %s::integer)",
        claim_parameters(queue_name, vt, qty),
        queue_name,
        keeps_order=True,
    )


@method(WorkQueue)
def read_grouped_head(queue_name: str, vt: int, qty: int = 1) -> Call[list[Message]]:
    """Claim the first message of up to `qty` groups.

    Args:
        queue_name: An existing queue.
        vt: As for `read_grouped`.
        qty: The most to claim, 1 or more: each of another group.

    Returns:
        0 to `qty` messages, lowest `msg_id` first.

    Raises:
        ArgumentError: `vt` or `qty` is out of range. Nothing was claimed.

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
    vt: int,
    qty: int = 1,
    *,
    max_poll_seconds: int = 5,
    poll_interval_ms: int = 100,
) -> Call[list[Message]]:
    """Claim as `read_grouped` does, and wait in the server while there is nothing to claim.

    The connection is taken for the whole wait, as by `read_with_poll`.

    Args:
        queue_name: An existing queue.
        vt: As for `read_grouped`.
        qty: As for `read_grouped`.
        max_poll_seconds: The longest wait, seconds, 1 or more.
        poll_interval_ms: The pause between two looks, milliseconds, 1 or more.

    Returns:
        As `read_grouped`; empty when the time is over.

    Raises:
        ArgumentError: A number is out of range. Nothing was claimed.

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
    vt: int,
    qty: int = 1,
    *,
    max_poll_seconds: int = 5,
    poll_interval_ms: int = 100,
) -> Call[list[Message]]:
    """Claim as `read_grouped_rr` does, and wait in the server while there is nothing to claim.

    Args:
        queue_name: An existing queue.
        vt: As for `read_grouped`.
        qty: As for `read_grouped`.
        max_poll_seconds: As for `read_grouped_with_poll`.
        poll_interval_ms: As for `read_grouped_with_poll`.

    Returns:
        As `read_grouped_rr`; empty when the time is over.

    Raises:
        ArgumentError: A number is out of range. Nothing was claimed.

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
    vt: int,
    qty: int = 1,
    *,
    max_poll_seconds: int = 5,
    poll_interval_ms: int = 100,
) -> Call[list[Message]]:
    """Claim as `read_grouped_head` does, and wait in the server while there is nothing to claim.

    Args:
        queue_name: An existing queue.
        vt: As for `read_grouped`.
        qty: As for `read_grouped_head`.
        max_poll_seconds: As for `read_grouped_with_poll`.
        poll_interval_ms: As for `read_grouped_with_poll`.

    Returns:
        As `read_grouped_head`; empty when the time is over.

    Raises:
        ArgumentError: A number is out of range. Nothing was claimed.

    Source: PGMQ 1.13.0 `pgmq.read_grouped_head_with_poll`.
    """
    return claim(
        "pgmq.read_grouped_head_with_poll("
        "%s::text, %s::integer, %s::integer, %s::integer, %s::integer)",
        poll_parameters(queue_name, vt, qty, max_poll_seconds, poll_interval_ms),
        queue_name,
    )
