"""Change capture of tables into event logs, as calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, nothing, record, scalar
from pgsluice.client.calls.clients import EventLog, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.log_records import Capture, CaptureProblem


@method(EventLog)
def capture(
    source_table: str, log_name: str, options: Mapping[str, Any] | None = None
) -> Call[None]:
    """Capture a table: append one event for each changed row, in the transaction of the change.

    Waits for open transactions that have written to the table; other writers wait for the end of this transaction.
    Another call replaces the options and includes new partitions.

    Args:
        source_table: The table as an SQL identifier, such as `shop.orders` or `shop."Orders"`: names with
            upper-case letters or other characters are quoted. Of a partitioned table, the root.
        log_name: An existing log.
        options: `columns` or `ignore`: the columns to keep or to leave out (an update of left-out columns alone
            appends no event); `key`: the columns that identify a row (default: the primary key); `before`: False
            keeps only the key of the old row; `operations`: a list of insert, update, delete and truncate;
            `row_bytes_max`: the size of a row from which on large values are left out; `dropped_partitions`: `keep`
            (default) or `delete` the rows of dropped and detached partitions in current-state tables; `replicated`:
            True captures changes in sessions with `session_replication_role = replica` too.

    Raises:
        LogNotFoundError: The log does not exist.
        ArgumentError: An option is unknown or its value invalid, or `key` does not identify rows.
        CaptureError: The table cannot be captured, or lacks a named column.
        ServerError: The table does not exist.

    Source: `sluice.capture`.
    """
    return Call(
        "select sluice.capture(%s::regclass, %s::text, %s::jsonb)",
        (source_table, log_name, json_parameter(dict(options or {}), "options")),
        nothing,
    )


@method(EventLog)
def drop_capture(source_table: str, log_name: str) -> Call[bool]:
    """Stop capturing a table into a log; its events stay in the log.

    Args:
        source_table: The table as an SQL identifier, such as `shop.orders` or `shop."Orders"`.
        log_name: The log that it is captured into.

    Returns:
        False when the table was not captured into this log.

    Raises:
        ServerError: The table does not exist.

    Source: `sluice.drop_capture`.
    """
    return Call(
        "select sluice.drop_capture(%s::regclass, %s::text)", (source_table, log_name), scalar
    )


@method(EventLog)
def list_captures(log_name: str | None = None) -> Call[list[Capture]]:
    """Return the captured tables of one log, or of all, by log and table.

    Source: `sluice.list_captures`.
    """
    return Call(
        "select source_table::text, log_name, options, operations, enabled "
        "from sluice.list_captures(%s::text)",
        (log_name,),
        record(Capture),
    )


@method(EventLog)
def list_capture_problems(log_name: str | None = None) -> Call[list[CaptureProblem]]:
    """Return why changes of captured tables are not captured or differ from what readers know, of one log or all.

    Includes tables with triggers of PgQ that do not fire.

    Source: `sluice.list_capture_problems`.
    """
    return Call(
        "select p.log_name, p.source_table::text, p.kind, p.problem, p.hint "
        "from sluice.list_capture_problems(%s::text) as p",
        (log_name,),
        record(CaptureProblem),
    )


@method(EventLog)
def capture_snapshot(
    source_table: str,
    log_name: str,
    *,
    after_key: Mapping[str, str] | None = None,
    qty: int = 1000,
) -> Call[dict[str, str] | None]:
    """Append the next chunk of a captured table's incremental snapshot; call it, and commit, until it returns None.

    Existing rows become events with op `r`, while writers continue. A consumer that applies all events in order,
    starting before the first snapshot row, reaches the current state of the table. The rows of the chunk are locked
    against changes until the commit.

    Args:
        source_table: A captured table as an SQL identifier, such as `shop.orders` or `shop."Orders"`.
        log_name: The log that it is captured into.
        after_key: The result of the previous call; None: start.
        qty: The most rows, 1 or more; fewer when another transaction is changing one. A table without a key is
            taken as a whole, and is locked against writes until the commit.

    Returns:
        The key of the last row, each value as text; None when no rows are left.

    Raises:
        CaptureError: The table is not captured into this log, or its capture is disabled.
        LogStateError: The log accepts no events, or the transaction is not READ COMMITTED.
        ArgumentError: `qty` is out of range, or `after_key` does not name the key columns.
        PayloadError: A value of `after_key` does not fit the type of its column.

    Source: `sluice.capture_snapshot`; sql/sluice/functions/capture/README.md explains the order of snapshot rows
    and changes.
    """
    return Call(
        "select sluice.capture_snapshot(%s::regclass, %s::text, %s::jsonb, %s::integer)",
        (
            source_table,
            log_name,
            json_parameter(None if after_key is None else dict(after_key), "after_key"),
            whole(qty, "qty", 1),
        ),
        scalar,
    )
