"""The functions that capture tables into event logs, as calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, nothing, record, scalar
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.log_records import Capture


def capture(source_table: str, queue_name: str, options: Mapping[str, Any] | None) -> Call[None]:
    return Call(
        "select sluice.capture(%s::regclass, %s::text, %s::jsonb)",
        (source_table, queue_name, json_parameter(dict(options or {}), "options")),
        nothing,
    )


def drop_capture(source_table: str, queue_name: str) -> Call[bool]:
    return Call(
        "select sluice.drop_capture(%s::regclass, %s::text)", (source_table, queue_name), scalar
    )


def list_captures(queue_name: str | None) -> Call[list[Capture]]:
    return Call(
        "select source_table::text, queue_name, options, operations, enabled "
        "from sluice.list_captures(%s::text)",
        (queue_name,),
        record(Capture),
    )


def capture_snapshot(
    source_table: str, queue_name: str, after_key: Mapping[str, str] | None, qty: int
) -> Call[dict[str, str] | None]:
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
