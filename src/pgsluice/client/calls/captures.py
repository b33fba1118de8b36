"""The functions that capture tables into event logs, as calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, nothing, record, scalar
from pgsluice.client.calls.clients import EventLog, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.log_records import Capture


@method(EventLog)
def capture(
    source_table: str, queue_name: str, options: Mapping[str, Any] | None = None
) -> Call[None]:
    """From now on append one event per changed row of a table, in the transaction of the change.

    Waits for every transaction that has written to the table to end, and writers wait for the end of this one.
    Called again it replaces the options, and covers partitions that were added.

    Args:
        source_table: The table as in SQL, `shop.orders`; or the root of a partitioned one.
        queue_name: An existing log.
        options: `columns` or `ignore`, what is kept or left out (an update of nothing else makes no event);
            `key`, the columns that tell rows apart, by default the primary key; `before`, False to keep of the
            old row no more than the key; `operations`, a list of insert, update, delete and truncate.

    Raises:
        LogNotFoundError: There is no such log.
        ArgumentError: An option does not exist or its value is bad, or `key` is no key.
        CaptureError: The table cannot be captured, or has no such column.
        ServerError: There is no such table.

    Source: `sluice.capture`.
    """
    return Call(
        "select sluice.capture(%s::regclass, %s::text, %s::jsonb)",
        (source_table, queue_name, json_parameter(dict(options or {}), "options")),
        nothing,
    )


@method(EventLog)
def drop_capture(source_table: str, queue_name: str) -> Call[bool]:
    """Stop capturing a table into a log; events that are there stay.

    Returns:
        False when it was not captured into it.

    Raises:
        ServerError: There is no such table.

    Source: `sluice.drop_capture`.
    """
    return Call(
        "select sluice.drop_capture(%s::regclass, %s::text)", (source_table, queue_name), scalar
    )


@method(EventLog)
def list_captures(queue_name: str | None = None) -> Call[list[Capture]]:
    """Return the captured tables of one log, or of all, by log and table.

    Source: `sluice.list_captures`.
    """
    return Call(
        "select source_table::text, queue_name, options, operations, enabled "
        "from sluice.list_captures(%s::text)",
        (queue_name,),
        record(Capture),
    )


@method(EventLog)
def capture_snapshot(
    source_table: str,
    queue_name: str,
    *,
    after_key: Mapping[str, str] | None = None,
    qty: int = 1000,
) -> Call[dict[str, str] | None]:
    """Append the next rows of a captured table as they are, op `r`; call it, and commit, until it returns None.

    Who applies the events in their order, from before the first of these on, ends with the table as it is:
    writers go on meanwhile. The rows are locked against change until the commit.

    Args:
        source_table: A captured table.
        queue_name: The log that it is captured into.
        after_key: What the last call returned; None: begin.
        qty: The most rows, 1 or more; fewer when somebody is changing one of them. A table without a key is taken
            whole, and nobody else writes to it until the commit.

    Returns:
        The key of the last row, each value as text; None when there were no more rows.

    Raises:
        CaptureError: The table is not captured into this log, or its capture is disabled.
        LogStateError: The log is closed for events, or the transaction is not READ COMMITTED.
        ArgumentError: `qty` is out of range, or `after_key` is no key of the table.
        PayloadError: A value of `after_key` is none of its column.

    Source: `sluice.capture_snapshot`; sql/sluice/README.md says why the order is right.
    """
    return Call(
        "select sluice.capture_snapshot(%s::regclass, %s::text, %s::jsonb, %s::integer)",
        (
            source_table,
            queue_name,
            json_parameter(None if after_key is None else dict(after_key), "after_key"),
            whole(qty, "qty", 1),
        ),
        scalar,
    )
