"""Archive exports to a lake, for the Spark pipeline `archive`, as calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from pgsluice.client.calls.call import Call, one, record, scalar


@dataclass(frozen=True, slots=True)
class Backlog:
    """A range of archived messages that an export has not verified.

    Attributes:
        first_msg_id, last_msg_id: Bounds of their ids, both included; the range may contain other messages.
        messages: Number of messages.
    """

    first_msg_id: int
    last_msg_id: int
    messages: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of comparing rows of the lake with the archive.

    Attributes:
        verified: Number of equal rows, now marked as verified.
        different: The msg_ids of rows that differ from the archive.
    """

    verified: int
    different: list[int]


def create_export(queue_name: str, export_name: str, lake: str, lake_id: str) -> Call[bool]:
    """Register an export; True if it is new."""
    return Call(
        "select sluice.create_export(%s::text, %s::text, %s::text, %s::text)",
        (queue_name, export_name, lake, lake_id),
        scalar,
        queue_name,
    )


def export_backlog(queue_name: str, export_name: str) -> Call[list[Backlog]]:
    """Return the ranges of messages that the export has not verified, lowest first."""
    return Call(
        "select * from sluice.export_backlog(%s::text, %s::text)",
        (queue_name, export_name),
        record(Backlog),
        queue_name,
    )


def verify_exported(
    queue_name: str,
    export_name: str,
    msg_ids: Sequence[int],
    enqueued_us: Sequence[int],
    hashes: Sequence[bytes],
) -> Call[Verdict]:
    """Mark messages as verified whose lake rows are equal; see sql/sluice/functions/exports/verify_exported.sql."""
    sql: LiteralString = (
        "select * from sluice.verify_exported("
        "%s::text, %s::text, %s::bigint[], %s::bigint[], %s::bytea[])"
    )
    return Call(
        sql,
        (queue_name, export_name, list(msg_ids), list(enqueued_us), list(hashes)),
        one(Verdict),
        queue_name,
    )


def drop_exported(queue_name: str, rows_max: int) -> Call[int]:
    """Delete archived messages that every export of the queue has verified; return their number."""
    return Call(
        "select sluice.drop_exported(%s::text, %s::bigint)",
        (queue_name, rows_max),
        scalar,
        queue_name,
    )
