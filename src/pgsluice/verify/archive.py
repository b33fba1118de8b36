"""Compare a queue's archive, or the queue itself, with its table in the lake."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from pgsluice.client.calls import verify as calls
from pgsluice.verify.comparing import ComparedColumns, Comparison, MayBeAlone, fetch, reading
from pgsluice.verify.forms import own_form
from pgsluice.verify.lake import open_lake
from pgsluice.verify.report import Report

_QUEUE = ("msg_id", "read_ct", "enqueued_at", "last_read_at", "vt", "message", "headers")
_ARCHIVE = (*_QUEUE, "archived_at")
# msg_id alone is not unique: a dropped and recreated queue numbers its messages from 1.
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

    msg_id and enqueued_at identify a row. The version of the lake table is fixed at the call, and PostgreSQL is read
    later: messages archived in between are missing in the lake, unless `archived_before` excludes them.

    Args:
        queue: An existing queue.
        lake: Folder of the table, or `iceberg:catalogue/namespace.table`.
        table: `archive` or `queue`.
        dropped: Accept messages of the lake that are missing in PostgreSQL, as they were dropped there.
        archived_before: Accept messages archived at this time or later that are missing in the lake.
        dsn: Connection string; None to resolve it as `pgsluice.connection` does.
        show: Maximum rows in the report per kind of difference, 0 or more.

    Raises:
        QueueNotFoundError: The queue does not exist.
        ConfigurationError: The lake table does not exist, or it lacks a key column.
        MissingExtraError: A package required to read the lake is not installed.
    """
    lake_table = open_lake(lake)
    names = _ARCHIVE if table == "archive" else _QUEUE
    with reading(dsn) as database:
        relation = fetch(database, calls.queue_relation(queue, table))
        fetch(database, calls.steady_session())
        columns = [c for c in fetch(database, calls.canonical_columns(relation)) if c.name in names]
        shape = ComparedColumns.of(columns, lake_table, _KEY, own_form)
        return Comparison(
            what=f"the {table} of queue {queue!r}",
            database=database,
            relation=relation,
            lake=lake_table,
            shape=shape,
            postgresql_alone=_later(shape, archived_before),
            lake_alone=_always if dropped else None,
        ).run(show=show)


def _always(_fields: Sequence[bytes]) -> bool:
    return True


def _later(shape: ComparedColumns, moment: datetime | None) -> MayBeAlone | None:
    if moment is None or "archived_at" not in shape.columns:
        return None
    at = shape.columns.index("archived_at")
    limit = (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    return lambda fields: int(fields[at]) >= limit
