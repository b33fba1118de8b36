"""The functions of schema `pgq_coop` as calls."""

from __future__ import annotations

from datetime import timedelta
from typing import LiteralString

from pgsluice.client.calls.call import Call, scalar, truth
from pgsluice.client.calls.clients import EventLog, method


@method(EventLog)
def register_subconsumer(queue_name: str, consumer_name: str, subconsumer_name: str) -> Call[bool]:
    """Register a subconsumer, and its consumer if need be.

    Returns:
        False when it was registered already.

    Raises:
        LogNotFoundError: There is no such log.

    Source: pgq-coop 3.4 `pgq_coop.register_subconsumer`.
    """
    sql: LiteralString = "select pgq_coop.register_subconsumer(%s::text, %s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name, subconsumer_name), truth)


@method(EventLog)
def unregister_subconsumer(
    queue_name: str, consumer_name: str, subconsumer_name: str, *, close_batch: bool = False
) -> Call[int]:
    """Remove a subconsumer.

    Args:
        queue_name: An existing log.
        consumer_name: Its consumer, which stays.
        subconsumer_name: The one to remove.
        close_batch: Close its open batch: nobody else gets those events.

    Returns:
        How many were removed, 0 or 1.

    Raises:
        LogStateError: It has an open batch and `close_batch` is False.

    Source: pgq-coop 3.4 `pgq_coop.unregister_subconsumer`.
    """
    sql: LiteralString = (
        "select pgq_coop.unregister_subconsumer(%s::text, %s::text, %s::text, %s::integer)"
    )
    of = (queue_name, consumer_name, subconsumer_name)
    return Call(sql, (*of, int(close_batch)), scalar)


@method(EventLog, name="coop_next_batch_custom")
def next_batch_custom(
    queue_name: str,
    consumer_name: str,
    subconsumer_name: str,
    *,
    min_lag: timedelta | None = None,
    min_count: int | None = None,
    min_interval: timedelta | None = None,
    dead_interval: timedelta | None = None,
) -> Call[int | None]:
    """Open a batch as `coop_next_batch` does, collected as `next_batch_custom` does.

    Returns:
        The batch_id, or None when there is nothing to do.

    Raises:
        LogNotFoundError: There is no such log.
        LogStateError: The consumer itself has a batch open.

    Source: pgq-coop 3.4 `pgq_coop.next_batch_custom`.
    """
    sql: LiteralString = (
        "select pgq_coop.next_batch_custom(%s::text, %s::text, %s::text, "
        "%s::interval, %s::integer, %s::interval, %s::interval)"
    )
    of = (queue_name, consumer_name, subconsumer_name)
    return Call(sql, (*of, min_lag, min_count, min_interval, dead_interval), scalar)


@method(EventLog, name="coop_next_batch")
def next_batch(
    queue_name: str,
    consumer_name: str,
    subconsumer_name: str,
    *,
    dead_interval: timedelta | None = None,
) -> Call[int | None]:
    """Open the subconsumer's next batch, or return the one that is open. Registers it if need be.

    Args:
        queue_name: An existing log.
        consumer_name: The consumer whose events are shared out.
        subconsumer_name: The one that asks.
        dead_interval: Take over the batch of a subconsumer that was not active for so long; None: of nobody.

    Returns:
        The batch_id, or None when there is nothing to do.

    Raises:
        LogNotFoundError: There is no such log.
        LogStateError: The consumer itself has a batch open.

    Source: pgq-coop 3.4 `pgq_coop.next_batch`; differences in sql/pgq/README.md.
    """
    sql: LiteralString = "select pgq_coop.next_batch(%s::text, %s::text, %s::text, %s::interval)"
    return Call(sql, (queue_name, consumer_name, subconsumer_name, dead_interval), scalar)


@method(EventLog, name="coop_finish_batch")
def finish_batch(batch_id: int) -> Call[bool]:
    """Close a subconsumer's batch.

    Returns:
        False when it was not open, as after another subconsumer took it over.

    Source: pgq-coop 3.4 `pgq_coop.finish_batch`.
    """
    sql: LiteralString = "select pgq_coop.finish_batch(%s::bigint)"
    return Call(sql, (batch_id,), truth)
