"""Event logs, producers, ticks, consumers and batches: functions of schema `pgq` as calls."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import LiteralString

from pgsluice.client.calls.arguments import int_or_time, point, whole
from pgsluice.client.calls.call import Call, nothing, one_or_none, record, scalar, truth
from pgsluice.client.calls.clients import EventLog, method
from pgsluice.client.calls.payload import event_parameters
from pgsluice.client.log_records import BatchInfo, ConsumerInfo, Event, LogInfo, NewEvent, OpenBatch
from pgsluice.tracing.carrier import Sends


@method(EventLog, name="create")
def create_queue(log_name: str) -> Call[bool]:
    """Create an event log with its first tick.

    Returns:
        False when the log existed.

    Source: PgQ 3.5.2 `pgq.create_queue`.
    """
    return Call("select pgq.create_queue(%s::text)", (log_name,), truth)


@method(EventLog, name="drop")
def drop_queue(log_name: str, *, force: bool = False) -> Call[None]:
    """Drop an event log with its events.

    Args:
        log_name: An existing log.
        force: Unregister its consumers too.

    Raises:
        LogNotFoundError: The log does not exist.
        LogInUseError: The log has consumers and `force` is False; the error's cause names them.

    Source: PgQ 3.5.2 `pgq.drop_queue`.
    """
    return Call("select pgq.drop_queue(%s::text, %s::boolean)", (log_name, force), nothing)


@method(EventLog)
def set_queue_config(log_name: str, param_name: str, param_value: str) -> Call[None]:
    """Change a setting of a log.

    Args:
        log_name: An existing log.
        param_name: One of ticker_max_count, ticker_max_lag, ticker_idle_period, ticker_paused, rotation_period,
            external_ticker.
        param_value: In PostgreSQL's syntax: `500`, `3 seconds`, `true`.

    Raises:
        LogNotFoundError: The log does not exist.
        ArgumentError: The setting does not exist.
        PayloadError: It cannot have this value.

    Source: PgQ 3.5.2 `pgq.set_queue_config`.
    """
    return Call(
        "select pgq.set_queue_config(%s::text, %s::text, %s::text)",
        (log_name, param_name, param_value),
        nothing,
    )


@method(EventLog)
def get_queue_info(log_name: str | None = None) -> Call[list[LogInfo]]:
    """Return the settings and state of one log, or of all, by name.

    Source: PgQ 3.5.2 `pgq.get_queue_info`.
    """
    return Call("select * from pgq.get_queue_info(%s::text)", (log_name,), record(LogInfo))


@method(EventLog)
def current_event_table(log_name: str) -> Call[str]:
    """Return the table that currently receives events, for a COPY in the same transaction.

    Raises:
        LogNotFoundError: The log does not exist.
        LogStateError: The log accepts no events.

    Source: PgQ 3.5.2 `pgq.current_event_table`; differences in sql/pgq/README.md.
    """
    return Call("select pgq.current_event_table(%s::text)", (log_name,), scalar)


@method(EventLog)
def insert_event(
    log_name: str,
    ev_type: str | None,
    ev_data: str | None,
    *,
    ev_extra1: str | None = None,
    ev_extra2: str | None = None,
    ev_extra3: str | None = None,
    ev_extra4: str | None = None,
) -> Call[int]:
    """Append one event; consumers receive it after the commit and the next tick.

    Args:
        log_name: An existing log.
        ev_type: Type of the event.
        ev_data: Text of the event, JSON by convention.
        ev_extra1: Additional text, as are the next three.

    Returns:
        The ev_id.

    Raises:
        LogNotFoundError: The log does not exist.
        LogStateError: The log accepts no events, or no more in one transaction.
        PayloadError: A field is not text that PostgreSQL can store. Nothing was inserted.

    Source: PgQ 3.5.2 `pgq.insert_event`.
    """
    event = NewEvent(ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
    sql: LiteralString = (
        "select pgq.insert_event("
        "%s::text, %s::text, %s::text, %s::text, %s::text, %s::text, %s::text)"
    )
    parameters = (log_name, *event_parameters(event))
    return Call(sql, parameters, scalar, sends=Sends("pgq", log_name, 6))


@method(EventLog)
def register_consumer(log_name: str, consumer_name: str) -> Call[bool]:
    """Register a consumer at the latest tick.

    Returns:
        False when the consumer was already registered; its position is kept.

    Raises:
        LogNotFoundError: The log does not exist.

    Source: PgQ 3.5.2 `pgq.register_consumer`.
    """
    sql: LiteralString = "select pgq.register_consumer(%s::text, %s::text)"
    return Call(sql, (log_name, consumer_name), truth)


@method(EventLog)
def register_consumer_at(log_name: str, consumer_name: str, tick_pos: int) -> Call[bool]:
    """Register a consumer at a tick, or move it there and close its open batch.

    Args:
        log_name: An existing log.
        consumer_name: Name of the consumer.
        tick_pos: A tick that the log still keeps; the next batch starts after it.

    Returns:
        False when the consumer was already registered and was moved.

    Raises:
        LogNotFoundError: The log does not exist.
        LogStateError: The log does not have this tick, or no longer.

    Source: PgQ 3.5.2 `pgq.register_consumer_at`.
    """
    sql: LiteralString = "select pgq.register_consumer_at(%s::text, %s::text, %s::bigint)"
    return Call(sql, (log_name, consumer_name, tick_pos), truth)


@method(EventLog)
def unregister_consumer(log_name: str, consumer_name: str) -> Call[int]:
    """Unregister a consumer and its subconsumers, and drop their positions.

    Returns:
        The number of consumers removed; 0 if none was registered.

    Source: PgQ 3.5.2 `pgq.unregister_consumer`.
    """
    sql: LiteralString = "select pgq.unregister_consumer(%s::text, %s::text)"
    return Call(sql, (log_name, consumer_name), scalar)


@method(EventLog)
def get_consumer_info(
    log_name: str | None = None, consumer_name: str | None = None
) -> Call[list[ConsumerInfo]]:
    """Return the position and lag of consumers, by log and name; None for either means all.

    Source: PgQ 3.5.2 `pgq.get_consumer_info`.
    """
    sql: LiteralString = "select * from pgq.get_consumer_info(%s::text, %s::text)"
    return Call(sql, (log_name, consumer_name), record(ConsumerInfo))


@method(EventLog)
def ticker(log_name: str) -> Call[int | None]:
    """Tick one log if a tick is due. Safe to call from any number of processes.

    Returns:
        The tick_id, or None if no tick is due or another session is ticking the log.

    Raises:
        LogNotFoundError: The log does not exist.
        LogStateError: The log is paused or ticked externally, or the transaction is not READ COMMITTED.

    Source: PgQ 3.5.2 `pgq.ticker`; differences in sql/pgq/README.md.
    """
    return Call("select pgq.ticker(%s::text)", (log_name,), scalar)


@method(EventLog)
def ticker_all() -> Call[int]:
    """Tick every log whose tick is due.

    Returns:
        The number of logs ticked.

    Source: PgQ 3.5.2 `pgq.ticker`.
    """
    return Call("select pgq.ticker()", (), scalar)


@method(EventLog)
def ticker_external(
    log_name: str, tick_id: int, orig_timestamp: datetime, event_seq: int
) -> Call[int]:
    """Tick a log that is ticked externally, such as a copy of another log.

    Args:
        log_name: A log whose `queue_external_ticker` is set.
        tick_id: The tick_id of the original log.
        orig_timestamp: Time of the original tick, with a time zone.
        event_seq: The last ev_id assigned at that time.

    Returns:
        The tick_id.

    Raises:
        LogStateError: The log is not ticked externally, or already has this tick or a later one.

    Source: PgQ 3.5.2 `pgq.ticker`.
    """
    return Call(
        "select pgq.ticker(%s::text, %s::bigint, %s::timestamptz, %s::bigint)",
        (log_name, tick_id, point(orig_timestamp, "orig_timestamp"), event_seq),
        scalar,
    )


@method(EventLog)
def force_tick(log_name: str) -> Call[int | None]:
    """Make the next call of `ticker` tick regardless of the log's settings; this call itself does not tick.

    Returns:
        The current last tick_id; the next one is higher.

    Source: PgQ 3.5.2 `pgq.force_tick`.
    """
    return Call("select pgq.force_tick(%s::text)", (log_name,), scalar)


@method(EventLog)
def maint_retry_events() -> Call[int]:
    """Move events whose retry is due back into their logs.

    Returns:
        The number of events moved; call it again until this is 0.

    Source: PgQ 3.5.2 `pgq.maint_retry_events`.
    """
    return Call("select pgq.maint_retry_events()", (), scalar)


@method(EventLog)
def next_batch(log_name: str, consumer_name: str) -> Call[int | None]:
    """Open the consumer's next batch, or return its open batch.

    Returns:
        The batch_id, or None without a new tick since the last batch.

    Raises:
        ConsumerNotFoundError: The consumer is not registered on this log.
        PositionLostError: The consumer's position was dropped by the log's lag limits.

    Source: PgQ 3.5.2 `pgq.next_batch`.
    """
    sql: LiteralString = "select pgq.next_batch(%s::text, %s::text)"
    return Call(sql, (log_name, consumer_name), scalar)


@method(EventLog)
def next_batch_info(log_name: str, consumer_name: str) -> Call[OpenBatch | None]:
    """Open the consumer's next batch as `next_batch` does, and return it with its ticks.

    Raises:
        ConsumerNotFoundError: The consumer is not registered on this log.
        PositionLostError: The consumer's position was dropped by the log's lag limits.

    Source: PgQ 3.5.2 `pgq.next_batch_info`.
    """
    sql: LiteralString = "select * from pgq.next_batch_info(%s::text, %s::text)"
    return Call(sql, (log_name, consumer_name), one_or_none(OpenBatch))


@method(EventLog)
def next_batch_custom(
    log_name: str,
    consumer_name: str,
    *,
    min_lag: timedelta | None = None,
    min_count: int | None = None,
    min_interval: timedelta | None = None,
) -> Call[OpenBatch | None]:
    """Open a batch that spans several ticks, or return the open batch unchanged.

    Args:
        log_name: An existing log.
        consumer_name: A registered consumer.
        min_lag: Minimum age of the batch's last tick.
        min_count: Minimum number of events, approximately, if available.
        min_interval: Minimum time span of the batch, if available.

    Returns:
        The batch, or None if no tick satisfies the conditions yet.

    Raises:
        ConsumerNotFoundError: The consumer is not registered on this log.
        PositionLostError: The consumer's position was dropped by the log's lag limits.

    Source: PgQ 3.5.2 `pgq.next_batch_custom`.
    """
    sql: LiteralString = (
        "select * from pgq.next_batch_custom("
        "%s::text, %s::text, %s::interval, %s::integer, %s::interval)"
    )
    return Call(
        sql, (log_name, consumer_name, min_lag, min_count, min_interval), one_or_none(OpenBatch)
    )


@method(EventLog)
def get_batch_info(batch_id: int) -> Call[BatchInfo | None]:
    """Return the consumer and the ticks of an open batch; None if the batch is not open.

    Source: PgQ 3.5.2 `pgq.get_batch_info`.
    """
    return Call(
        "select * from pgq.get_batch_info(%s::bigint)",
        (batch_id,),
        one_or_none(BatchInfo),
    )


@method(EventLog)
def get_batch_events(batch_id: int) -> Call[list[Event]]:
    """Return the events of an open batch, by ev_id; the same ones until the batch is finished.

    Loads all events into memory; for large batches use `stream_batch_events`.

    Raises:
        BatchNotFoundError: The batch is not open.

    Source: PgQ 3.5.2 `pgq.get_batch_events`.
    """
    return Call("select * from pgq.get_batch_events(%s::bigint)", (batch_id,), record(Event))


@method(EventLog)
def event_retry(batch_id: int, ev_id: int, retry_after: int | datetime) -> Call[bool]:
    """Schedule a retry of one event of an open batch; it is redelivered in a later batch, only to this consumer.

    Args:
        batch_id: An open batch.
        ev_id: Id of an event of the batch.
        retry_after: Seconds from now, 0 or more, or a time with a time zone.

    Returns:
        False when a retry was already scheduled.

    Raises:
        BatchNotFoundError: The batch is not open.
        ArgumentError: The event is not in the batch.

    Source: PgQ 3.5.2 `pgq.event_retry`. For many events, use `retry`, which costs far less.
    """
    sql: LiteralString = (
        f"select pgq.event_retry(%s::bigint, %s::bigint, {int_or_time(retry_after)})"
    )
    return Call(sql, (batch_id, ev_id, point(retry_after, "retry_after")), truth)


@method(EventLog)
def batch_retry(batch_id: int, retry_seconds: int) -> Call[int]:
    """Schedule a retry of all events of an open batch.

    Args:
        batch_id: An open batch.
        retry_seconds: Seconds from now, 0 or more.

    Returns:
        The number of events scheduled by this call, without those scheduled before.

    Raises:
        BatchNotFoundError: The batch is not open.

    Source: PgQ 3.5.2 `pgq.batch_retry`.
    """
    return Call(
        "select pgq.batch_retry(%s::bigint, %s::integer)",
        (batch_id, whole(retry_seconds, "retry_seconds", 0)),
        scalar,
    )


@method(EventLog)
def finish_batch(batch_id: int) -> Call[bool]:
    """Finish a batch: move the consumer's position past its events.

    In the transaction of the consumer's own writes, this gives them an exactly-once effect.

    Returns:
        False when the batch was not open, because another session finished it.

    Raises:
        PositionLostError: The consumer's position was given up.

    Source: PgQ 3.5.2 `pgq.finish_batch`.
    """
    return Call("select pgq.finish_batch(%s::bigint)", (batch_id,), truth)


@method(EventLog)
def version() -> Call[str]:
    """Return the version of PgQ's interface followed by our own; it starts with `3.5`.

    Source: PgQ 3.5.2 `pgq.version`.
    """
    return Call("select pgq.version()", (), scalar)
