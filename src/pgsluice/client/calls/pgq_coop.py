"""Cooperative consumers: functions of schema `pgq_coop` as calls."""

from __future__ import annotations

from datetime import timedelta
from typing import LiteralString

from pgsluice.client.calls.call import Call, scalar, truth
from pgsluice.client.calls.clients import EventLog, method


@method(EventLog)
def register_subconsumer(log_name: str, consumer_name: str, subconsumer_name: str) -> Call[bool]:
    """Register a subconsumer, and its consumer if necessary.

    Returns:
        False when it was already registered.

    Raises:
        LogNotFoundError: The log does not exist.

    Source: pgq-coop 3.4 `pgq_coop.register_subconsumer`.
    """
    sql: LiteralString = "select pgq_coop.register_subconsumer(%s::text, %s::text, %s::text)"
    return Call(sql, (log_name, consumer_name, subconsumer_name), truth)


@method(EventLog)
def unregister_subconsumer(
    log_name: str, consumer_name: str, subconsumer_name: str, *, close_batch: bool = False
) -> Call[int]:
    """Unregister a subconsumer.

    Args:
        log_name: An existing log.
        consumer_name: Its consumer, which stays.
        subconsumer_name: The subconsumer to unregister.
        close_batch: Close its open batch; its events are not delivered to another subconsumer.

    Returns:
        The number of subconsumers removed, 0 or 1.

    Raises:
        LogStateError: The subconsumer has an open batch and `close_batch` is False.

    Source: pgq-coop 3.4 `pgq_coop.unregister_subconsumer`.
    """
    sql: LiteralString = (
        "select pgq_coop.unregister_subconsumer(%s::text, %s::text, %s::text, %s::integer)"
    )
    of = (log_name, consumer_name, subconsumer_name)
    return Call(sql, (*of, int(close_batch)), scalar)


@method(EventLog, name="coop_next_batch_custom")
def next_batch_custom(
    log_name: str,
    consumer_name: str,
    subconsumer_name: str,
    *,
    min_lag: timedelta | None = None,
    min_count: int | None = None,
    min_interval: timedelta | None = None,
    dead_interval: timedelta | None = None,
) -> Call[int | None]:
    """Open a batch as `coop_next_batch` does, with the conditions of `next_batch_custom`.

    Returns:
        The batch_id, or None if no batch is available.

    Raises:
        LogNotFoundError: The log does not exist.
        LogStateError: The consumer itself has an open batch.

    Source: pgq-coop 3.4 `pgq_coop.next_batch_custom`.
    """
    sql: LiteralString = (
        "select pgq_coop.next_batch_custom(%s::text, %s::text, %s::text, "
        "%s::interval, %s::integer, %s::interval, %s::interval)"
    )
    of = (log_name, consumer_name, subconsumer_name)
    return Call(sql, (*of, min_lag, min_count, min_interval, dead_interval), scalar)


@method(EventLog, name="coop_next_batch")
def next_batch(
    log_name: str,
    consumer_name: str,
    subconsumer_name: str,
    *,
    dead_interval: timedelta | None = None,
) -> Call[int | None]:
    """Open the subconsumer's next batch, or return its open batch. Registers the subconsumer if necessary.

    Args:
        log_name: An existing log.
        consumer_name: The consumer whose batches the subconsumers share.
        subconsumer_name: The subconsumer that opens the batch.
        dead_interval: Take over the batch of a subconsumer after this time without activity; None: never.

    Returns:
        The batch_id, or None if no batch is available.

    Raises:
        LogNotFoundError: The log does not exist.
        LogStateError: The consumer itself has an open batch.

    Source: pgq-coop 3.4 `pgq_coop.next_batch`; differences in sql/pgq/README.md.
    """
    sql: LiteralString = "select pgq_coop.next_batch(%s::text, %s::text, %s::text, %s::interval)"
    return Call(sql, (log_name, consumer_name, subconsumer_name, dead_interval), scalar)


@method(EventLog, name="coop_finish_batch")
def finish_batch(batch_id: int) -> Call[bool]:
    """Finish a subconsumer's batch.

    Returns:
        False when the batch was not open, as after a takeover by another subconsumer.

    Source: pgq-coop 3.4 `pgq_coop.finish_batch`.
    """
    sql: LiteralString = "select pgq_coop.finish_batch(%s::bigint)"
    return Call(sql, (batch_id,), truth)
