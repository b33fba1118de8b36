"""Options of work queues and event logs: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, LiteralString, Unpack

from pgsluice.client.calls.call import Call, one, record, scalar
from pgsluice.client.calls.clients import EventLog, WorkQueue, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.settings_records import (
    Change,
    LogOptions,
    LogSettings,
    QueueOptions,
    QueueSettings,
)

_COLUMNS: LiteralString = (
    "queue_name, paused_at, paused_by, pause_reason, archive_retention, max_attempts, backoff, backoff_base, "
    "backoff_max, backoff_jitter, backoff_factor, deduplication_window, deduplication_until, on_duplicate, "
    "deduplication_by, fleet_concurrency, key_concurrency, rate, rate_interval, when_waiting, priority_weights, "
    "limits_by"
)


@method(WorkQueue)
def set_queue_options(queue_name: str, /, **options: Unpack[QueueOptions]) -> Call[Change]:
    """Change the given options of a queue; the others keep their values.

    Limits, a key order and priorities may need an index; producers and readers wait while it is built.

    Args:
        queue_name: An existing queue.
        **options: See `QueueOptions`.

    Returns:
        `unchanged` when the queue has these options already.

    Raises:
        ArgumentError: An option is unknown, its value invalid, or two of them contradict each other. Nothing was
            changed.
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.set_queue_options`.
    """
    return Call(
        "select sluice.set_queue_options(%s::text, %s::jsonb, null::text)",
        (queue_name, options_parameter(options)),
        scalar,
        queue_name,
    )


def declare_queue_options(
    queue_name: str, declared_by: str, options: QueueOptions
) -> Call[Change | Literal["operator"]]:
    """Change the limits or the deduplication that a handler declares, unless an operator set others: `operator`."""
    return Call(
        "select sluice.set_queue_options(%s::text, %s::jsonb, %s::text)",
        (queue_name, options_parameter(options), declared_by),
        scalar,
        queue_name,
    )


@method(WorkQueue)
def queue_options(queue_name: str) -> Call[QueueSettings]:
    """Return the options of a queue.

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.queue_options`.
    """
    sql: LiteralString = f"select {_COLUMNS} from sluice.queue_options(%s::text)"  # noqa: S608
    return Call(sql, (queue_name,), one(QueueSettings), queue_name)


@method(WorkQueue)
def list_queue_options() -> Call[list[QueueSettings]]:
    """Return the options of all queues, by name.

    Source: `sluice.queue_options`.
    """
    sql: LiteralString = f"select {_COLUMNS} from sluice.queue_options(null::text)"  # noqa: S608
    return Call(sql, (), record(QueueSettings))


@method(EventLog)
def set_log_options(log_name: str, /, **options: Unpack[LogOptions]) -> Call[Change]:
    """Change the given options of a log; the others keep their values.

    Args:
        log_name: An existing log.
        **options: See `LogOptions`.

    Returns:
        `unchanged` when the log has these options already.

    Raises:
        ArgumentError: An option is unknown, or its value invalid. Nothing was changed.
        LogNotFoundError: The log does not exist.

    Source: `sluice.set_log_options`.
    """
    return Call(
        "select sluice.set_log_options(%s::text, %s::jsonb)",
        (log_name, options_parameter(options)),
        scalar,
    )


@method(EventLog)
def log_options(log_name: str) -> Call[LogSettings]:
    """Return the options of a log.

    Raises:
        LogNotFoundError: The log does not exist.

    Source: `sluice.log_options`.
    """
    return Call("select * from sluice.log_options(%s::text)", (log_name,), one(LogSettings))


@method(EventLog)
def list_log_options() -> Call[list[LogSettings]]:
    """Return the options of all logs, by name.

    Source: `sluice.log_options`.
    """
    return Call("select * from sluice.log_options(null::text)", (), record(LogSettings))


def options_parameter(options: Mapping[str, Any]) -> Any:
    """Return options as a JSON object; durations as PostgreSQL's intervals."""
    return json_parameter(
        {
            name: f"{value.days} days {value.seconds}.{value.microseconds:06} seconds"
            if isinstance(value, timedelta)
            else value
            for name, value in options.items()
        },
        "options",
    )
