"""A queue's archive, or the queue itself, against its table in the lake."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from pgsluice.client.calls import verify as calls
from pgsluice.verify.comparing import Comparison, MayBeAlone, Shape, ask, reading
from pgsluice.verify.forms import own_form
from pgsluice.verify.lake import open_lake
from pgsluice.verify.report import Report

_QUEUE = ("msg_id", "read_ct", "enqueued_at", "last_read_at", "vt", "message", "headers")
_ARCHIVE = (*_QUEUE, "archived_at")
# A queue that was dropped and made again numbers its messages from 1.
_KEY = ("msg_id", "enqueued_at")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def verify_archive(
    queue: str,
    lake: str | Path,
    *,
    table: Literal["archive", "queue"] = "archive",
    dropped: bool = False,
    archived_before: datetime | None = None,
    dsn: str | None = None,
    show: int = 5,
) -> Report:
    """Compare the rows of an archive, or of a queue, with those of its table in the lake.

    A row is known by msg_id and enqueued_at. The lake is read as it is at the call, PostgreSQL after it: what is
    archived meanwhile is missing in the lake, unless `archived_before` leaves it out.

    Args:
        queue: An existing queue.
        lake: The table's folder, or `iceberg:catalogue/namespace.table`.
        table: `archive` or `queue`.
        dropped: The lake may hold messages that PostgreSQL does not: they were dropped there.
        archived_before: Messages archived at this time or later may be missing in the lake.
        dsn: Where to connect; by the rule of `pgsluice.connection` when None.
        show: Of each kind of difference so many rows are in the report, 0 or more.

    Raises:
        QueueNotFoundError: There is no such queue.
        ConfigurationError: There is no such table in the lake, or its rows cannot be told apart.
        MissingExtraError: A package that reads the lake is not installed.
    """
    there = open_lake(lake)
    names = _ARCHIVE if table == "archive" else _QUEUE
    with reading(dsn) as database:
        relation = ask(database, calls.queue_relation(queue, table))
        ask(database, calls.steady_session())
        columns = [c for c in ask(database, calls.canonical_columns(relation)) if c.name in names]
        shape = Shape.of(columns, there, _KEY, own_form)
        return Comparison(
            what=f"the {table} of queue {queue!r}",
            database=database,
            relation=relation,
            lake=there,
            shape=shape,
            here_alone=_later(shape, archived_before),
            there_alone=_always if dropped else None,
        ).run(show=show)


def _always(_fields: Sequence[bytes]) -> bool:
    return True


def _later(shape: Shape, moment: datetime | None) -> MayBeAlone | None:
    if moment is None or "archived_at" not in shape.columns:
        return None
    at = shape.columns.index("archived_at")
    limit = (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    return lambda fields: int(fields[at]) >= limit
