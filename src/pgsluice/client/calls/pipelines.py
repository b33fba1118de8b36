"""Pipelines from event logs into the lake: the query that holds a consumer, and its progress."""

from __future__ import annotations

from datetime import datetime

from pgsluice.client.calls.call import Call, record, row, scalar
from pgsluice.client.calls.clients import EventLog, method
from pgsluice.client.log_records import PipelineState


def hold_pipeline(
    log_name: str, consumer_name: str, kind: str, lake: str, backend_pid: int
) -> Call[tuple[bool | None, str]]:
    """Hold the consumer of a pipeline until the end of the session.

    Returns:
        True if this session holds it, with its description; False with that of the holder; None behind a pooler.
    """
    return Call(
        "select h.is_held, h.holder from sluice.hold_pipeline("
        "%s::text, %s::text, %s::text, %s::text, %s::integer) as h",
        (log_name, consumer_name, kind, lake, backend_pid),
        row,
        is_report=True,
    )


def report_pipeline(
    log_name: str, consumer_name: str, row_count: int, last_commit_at: datetime | None
) -> Call[int | None]:
    """Report the rows written since the start of a query, and the time of its last commit.

    Returns:
        Events after its position, up to the newest tick, approximately; None if its consumer is not registered.
    """
    return Call(
        "select sluice.report_pipeline(%s::text, %s::text, %s::bigint, %s::timestamptz)",
        (log_name, consumer_name, row_count, last_commit_at),
        scalar,
    )


@method(EventLog)
def list_pipelines() -> Call[list[PipelineState]]:
    """Return the pipelines from event logs into the lake, by log and consumer, with their progress and lag.

    Source: `sluice.list_pipelines`.
    """
    return Call("select * from sluice.list_pipelines()", (), record(PipelineState))
