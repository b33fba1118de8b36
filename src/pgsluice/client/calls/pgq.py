"""The functions of schema `pgq` as calls."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import LiteralString

from pgsluice.client.calls.arguments import int_or_time, point, whole
from pgsluice.client.calls.call import Call, nothing, one_or_none, record, scalar, truth
from pgsluice.client.calls.clients import EventLog, method
from pgsluice.client.calls.payload import event_parameters
from pgsluice.client.log_records import BatchInfo, ConsumerInfo, Event, LogInfo, NewEvent, OpenBatch


@method(EventLog)
def create_queue(queue_name: str) -> Call[bool]:
    """Create an event log with its first tick.

    Returns:
        False when it existed.

    Source: PgQ 3.5.2 `pgq.create_queue`.
    """
    return Call("select pgq.create_queue(%s::text)", (queue_name,), truth)


@method(EventLog)
def drop_queue(queue_name: str, *, force: bool = False) -> Call[None]:
    """Drop an event log with its events.

    Args:
        queue_name: An existing log.
        force: Unregister its consumers too.

    Raises:
        LogNotFoundError: There is no such log.
        LogInUseError: It has consumers and `force` is False; they are named in the error's cause.

    Source: PgQ 3.5.2 `pgq.drop_queue`.
    """
    return Call("select pgq.drop_queue(%s::text, %s::boolean)", (queue_name, force), nothing)


@method(EventLog)
def set_queue_config(queue_name: str, param_name: str, param_value: str) -> Call[None]:
    """Change a setting of a log.

    Args:
        queue_name: An existing log.
        param_name: One of ticker_max_count, ticker_max_lag, ticker_idle_period, ticker_paused, rotation_period,
            external_ticker.
        param_value: As PostgreSQL reads it: `500`, `3 seconds`, `true`.

    Raises:
        LogNotFoundError: There is no such log.
        ArgumentError: There is no such setting.
        PayloadError: It cannot have this value.

    Source: PgQ 3.5.2 `pgq.set_queue_config`.
    """
    return Call(
        "select pgq.set_queue_config(%s::text, %s::text, %s::text)",
        (queue_name, param_name, param_value),
        nothing,
    )


@method(EventLog)
def get_queue_info(queue_name: str | None = None) -> Call[list[LogInfo]]:
    """Return settings and state of one log, or of all, by name.

    Source: PgQ 3.5.2 `pgq.get_queue_info`.
    """
    return Call("select * from pgq.get_queue_info(%s::text)", (queue_name,), record(LogInfo))


@method(EventLog)
def current_event_table(queue_name: str) -> Call[str]:
    """Return the table that events go into now, for a COPY in the same transaction.

    Raises:
        LogNotFoundError: There is no such log.
        LogStateError: The log is closed for events.

    Source: PgQ 3.5.2 `pgq.current_event_table`; differences in sql/pgq/README.md.
    """
    return Call("select pgq.current_event_table(%s::text)", (queue_name,), scalar)


@method(EventLog)
def insert_event(
    queue_name: str,
    ev_type: str | None,
    ev_data: str | None,
    *,
    ev_extra1: str | None = None,
    ev_extra2: str | None = None,
    ev_extra3: str | None = None,
    ev_extra4: str | None = None,
) -> Call[int]:
    """Append one event; consumers get it after the commit and the tick that follows.

    Args:
        queue_name: An existing log.
        ev_type: What it is.
        ev_data: What it says; text, JSON by convention.
        ev_extra1: More of it, as are the next three.

    Returns:
        Its ev_id.

    Raises:
        LogNotFoundError: There is no such log.
        LogStateError: The log is closed for events, or takes no more of them from one transaction.
        PayloadError: A field is no text that PostgreSQL can store. Nothing was inserted.

    Source: PgQ 3.5.2 `pgq.insert_event`.
    """
    event = NewEvent(ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
    sql: LiteralString = (
        "select pgq.insert_event("
        "%s::text, %s::text, %s::text, %s::text, %s::text, %s::text, %s::text)"
    )
    return Call(sql, (queue_name, *event_parameters(event)), scalar)


@method(EventLog)
def register_consumer(queue_name: str, consumer_name: str) -> Call[bool]:
    """Subscribe a consumer, from the latest tick on.

    Returns:
        False when it was subscribed already; its position is kept.

    Raises:
        LogNotFoundError: There is no such log.

    Source: PgQ 3.5.2 `pgq.register_consumer`.
    """
    sql: LiteralString = "select pgq.register_consumer(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), truth)


@method(EventLog)
def register_consumer_at(queue_name: str, consumer_name: str, tick_pos: int) -> Call[bool]:
    """Subscribe a consumer from a tick on, or move it there; its open batch is closed.

    Args:
        queue_name: An existing log.
        consumer_name: Its name.
        tick_pos: A tick that the log still has: events after it come next.

    Returns:
        False when it was subscribed already, and was moved.

    Raises:
        LogNotFoundError: There is no such log.
        LogStateError: The log has no such tick, or not any more.

    Source: PgQ 3.5.2 `pgq.register_consumer_at`.
    """
    sql: LiteralString = "select pgq.register_consumer_at(%s::text, %s::text, %s::bigint)"
    return Call(sql, (queue_name, consumer_name, tick_pos), truth)


@method(EventLog)
def unregister_consumer(queue_name: str, consumer_name: str) -> Call[int]:
    """Remove a consumer's subscription and its position, and those of its subconsumers.

    Returns:
        How many were removed; 0 when there was none.

    Source: PgQ 3.5.2 `pgq.unregister_consumer`.
    """
    sql: LiteralString = "select pgq.unregister_consumer(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), scalar)


@method(EventLog)
def get_consumer_info(
    queue_name: str | None = None, consumer_name: str | None = None
) -> Call[list[ConsumerInfo]]:
    """Return position and lag of consumers, by log and name; None for either means all.

    Source: PgQ 3.5.2 `pgq.get_consumer_info`.
    """
    sql: LiteralString = "select * from pgq.get_consumer_info(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), record(ConsumerInfo))


@method(EventLog)
def ticker(queue_name: str) -> Call[int | None]:
    """Tick one log if it is time. Any number of processes may do so at once.

    Returns:
        The tick_id, or None when it is not time or another session ticks it.

    Raises:
        LogNotFoundError: There is no such log.
        LogStateError: It is paused, ticked from outside, or the transaction is not READ COMMITTED.

    Source: PgQ 3.5.2 `pgq.ticker`; differences in sql/pgq/README.md.
    """
    return Call("select pgq.ticker(%s::text)", (queue_name,), scalar)


@method(EventLog)
def ticker_all() -> Call[int]:
    """Tick every log whose time it is.

    Returns:
        How many were ticked.

    Source: PgQ 3.5.2 `pgq.ticker`.
    """
    return Call("select pgq.ticker()", (), scalar)


@method(EventLog)
def ticker_external(
    queue_name: str, tick_id: int, orig_timestamp: datetime, event_seq: int
) -> Call[int]:
    """Tick a log that is ticked from outside, as a copy of another log is.

    Args:
        queue_name: A log whose `queue_external_ticker` is set.
        tick_id: The other log's.
        orig_timestamp: When it was made there, with a time zone.
        event_seq: The last ev_id given out then.

    Returns:
        The tick_id.

    Raises:
        LogStateError: The log is not ticked from outside, or has this tick or a later one.

    Source: PgQ 3.5.2 `pgq.ticker`.
    """
    return Call(
        "select pgq.ticker(%s::text, %s::bigint, %s::timestamptz, %s::bigint)",
        (queue_name, tick_id, point(orig_timestamp, "orig_timestamp"), event_seq),
        scalar,
    )


@method(EventLog)
def force_tick(queue_name: str) -> Call[int | None]:
    """Let the next call of `ticker` tick, whatever the log's settings; it does not tick itself.

    Returns:
        The last tick_id there is; the one to come is higher.

    Source: PgQ 3.5.2 `pgq.force_tick`.
    """
    return Call("select pgq.force_tick(%s::text)", (queue_name,), scalar)


@method(EventLog)
def maint_retry_events() -> Call[int]:
    """Move events that were asked for again, and whose time has come, back into their logs.

    Returns:
        How many were moved; call it again until it is 0.

    Source: PgQ 3.5.2 `pgq.maint_retry_events`.
    """
    return Call("select pgq.maint_retry_events()", (), scalar)


@method(EventLog)
def next_batch(queue_name: str, consumer_name: str) -> Call[int | None]:
    """Open the consumer's next batch, or return the one that is open.

    Returns:
        The batch_id, or None when no tick has come since the last batch.

    Raises:
        ConsumerNotFoundError: The consumer is not registered on this log.
        PositionLostError: Its position was given up.

    Source: PgQ 3.5.2 `pgq.next_batch`.
    """
    sql: LiteralString = "select pgq.next_batch(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), scalar)


@method(EventLog)
def next_batch_info(queue_name: str, consumer_name: str) -> Call[OpenBatch | None]:
    """Open the consumer's next batch as `next_batch` does, and return its ticks too.

    Raises:
        ConsumerNotFoundError: The consumer is not registered on this log.
        PositionLostError: Its position was given up.

    Source: PgQ 3.5.2 `pgq.next_batch_info`.
    """
    sql: LiteralString = "select * from pgq.next_batch_info(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), one_or_none(OpenBatch))


@method(EventLog)
def next_batch_custom(
    queue_name: str,
    consumer_name: str,
    *,
    min_lag: timedelta | None = None,
    min_count: int | None = None,
    min_interval: timedelta | None = None,
) -> Call[OpenBatch | None]:
    """Open a batch that collects several ticks. One that is open already is returned as it is.

    Args:
        queue_name: An existing log.
        consumer_name: A registered consumer.
        min_lag: Take no tick that is younger.
        min_count: Collect about so many events, if there are.
        min_interval: Collect the events of so long a time, if there are.

    Returns:
        The batch, or None when no tick satisfies the conditions yet.

    Raises:
        ConsumerNotFoundError: The consumer is not registered on this log.
        PositionLostError: Its position was given up.

    Source: PgQ 3.5.2 `pgq.next_batch_custom`.
    """
    sql: LiteralString = (
        "select * from pgq.next_batch_custom("
        "%s::text, %s::text, %s::interval, %s::integer, %s::interval)"
    )
    return Call(
        sql, (queue_name, consumer_name, min_lag, min_count, min_interval), one_or_none(OpenBatch)
    )


@method(EventLog)
def get_batch_info(batch_id: int) -> Call[BatchInfo | None]:
    """Return whose open batch it is and its ticks; None when it is not open.

    Source: PgQ 3.5.2 `pgq.get_batch_info`.
    """
    return Call(
        "select * from pgq.get_batch_info(%s::bigint)",
        (batch_id,),
        one_or_none(BatchInfo),
    )


@method(EventLog)
def get_batch_events(batch_id: int) -> Call[list[Event]]:
    """Return the events of an open batch, by ev_id; the same each time until it is finished.

    All at once: see `stream_batch_events` for batches that may be large.

    Raises:
        BatchNotFoundError: It is not open.

    Source: PgQ 3.5.2 `pgq.get_batch_events`.
    """
    return Call("select * from pgq.get_batch_events(%s::bigint)", (batch_id,), record(Event))


@method(EventLog)
def event_retry(batch_id: int, ev_id: int, retry_after: int | datetime) -> Call[bool]:
    """Ask for one event of an open batch again; it comes in a later batch, to this consumer only.

    Args:
        batch_id: An open batch.
        ev_id: An event of it.
        retry_after: Seconds from now, 0 or more, or a time with a time zone.

    Returns:
        False when it had been asked for already.

    Raises:
        BatchNotFoundError: The batch is not open.
        ArgumentError: It has no such event.

    Source: PgQ 3.5.2 `pgq.event_retry`. For many events, `retry` costs far less.
    """
    sql: LiteralString = (
        f"select pgq.event_retry(%s::bigint, %s::bigint, {int_or_time(retry_after)})"
    )
    return Call(sql, (batch_id, ev_id, point(retry_after, "retry_after")), truth)


@method(EventLog)
def batch_retry(batch_id: int, retry_seconds: int) -> Call[int]:
    """Ask for all events of an open batch again.

    Args:
        batch_id: An open batch.
        retry_seconds: Seconds from now, 0 or more.

    Returns:
        How many are queued by this call: those asked for before are not among them.

    Raises:
        BatchNotFoundError: It is not open.

    Source: PgQ 3.5.2 `pgq.batch_retry`.
    """
    return Call(
        "select pgq.batch_retry(%s::bigint, %s::integer)",
        (batch_id, whole(retry_seconds, "retry_seconds", 0)),
        scalar,
    )


@method(EventLog)
def finish_batch(batch_id: int) -> Call[bool]:
    """Close a batch: the consumer moves behind its events.

    In the transaction of the consumer's own writes this makes their effect an exactly-once effect.

    Returns:
        False when it was not open: another session finished it.

    Raises:
        PositionLostError: The consumer's position was given up.

    Source: PgQ 3.5.2 `pgq.finish_batch`.
    """
    return Call("select pgq.finish_batch(%s::bigint)", (batch_id,), truth)


@method(EventLog)
def version() -> Call[str]:
    """Return the version of PgQ whose contract this is, and ours; it begins with `3.5`.

    Source: PgQ 3.5.2 `pgq.version`.
    """
    return Call("select pgq.version()", (), scalar)
