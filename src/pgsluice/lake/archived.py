"""Archived messages as a table of the lake holds them, read again without Spark, to be compared with PostgreSQL.

What wrote the table has no part in this: files are found by the table's own log, read by Arrow, and hashed. The
server hashes its rows by the same rule, which stands in sql/sluice/functions/exports/verify_exported.sql.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow import dataset

from pgsluice.client.calls.spark_exports import Backlog
from pgsluice.errors import SluiceError
from pgsluice.lake.delta.opening import dataset_of, folder_of
from pgsluice.lake.disk import sync_file, sync_folder

# In the order in which they are hashed.
COLUMNS = (
    "msg_id",
    "read_ct",
    "enqueued_at",
    "last_read_at",
    "archived_at",
    "vt",
    "message",
    "headers",
)
# Of one range all ids and hashes are in memory, about 15 MB; of the messages themselves one batch.
_RANGE_MESSAGES = 100_000
_RANGE_GAP = 1_000
_RANGES_MAX = 50
_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class IdRange:
    """Ids from the first to the last, both included."""

    first: int
    last: int


@dataclass(frozen=True)
class Found:
    """Rows of the lake: their msg_id, enqueued_at in microseconds since 1970, and hash, in the same order."""

    msg_ids: list[int]
    enqueued_us: list[int]
    hashes: list[bytes]


def ranges_of(backlog: Sequence[Backlog]) -> list[IdRange]:
    """Few ranges of bounded size that hold all ids of a backlog, and few others."""
    gap = _RANGE_GAP
    most = _RANGES_MAX + 2 * sum(part.messages for part in backlog) // _RANGE_MESSAGES
    while len(ranges := _joined(backlog, gap)) > most:
        gap *= 8  # far apart, they would be looked for one by one
    return ranges


def _joined(backlog: Sequence[Backlog], gap: int) -> list[IdRange]:
    ranges: list[IdRange] = []
    messages = 0
    for part in backlog:
        last = ranges[-1] if ranges else None
        messages += part.messages
        if (
            last is not None
            and messages <= _RANGE_MESSAGES
            and part.first_msg_id - last.last <= gap
        ):
            ranges[-1] = IdRange(last.first, part.last_msg_id)
        else:
            ranges.append(IdRange(part.first_msg_id, part.last_msg_id))
            messages = part.messages
    return ranges


def files_with(table: DeltaTable, ranges: Iterable[IdRange]) -> set[str]:
    """The files of a table that may hold messages with these ids, as `paths_of` names them.

    Statistics rule out the others.
    """
    predicate = [[("msg_id", ">=", ids.first), ("msg_id", "<=", ids.last)] for ids in ranges]
    if not predicate:
        return set()
    # Of a file's URI, delta-rs encodes the table's folder and not what comes after it.
    folder = table.table_uri.removeprefix("file://")
    uris = table.file_uris(file_pruning_predicate=predicate)
    return {uri.removeprefix("file://").removeprefix(folder) for uri in uris}


def read_again(table: DeltaTable, ids: IdRange) -> Iterator[Found]:
    """Read the rows with these ids and hash them, some thousand at a time.

    Raises:
        SluiceError: The table holds a message twice.
    """
    predicate = [("msg_id", ">=", ids.first), ("msg_id", "<=", ids.last)]
    rows = dataset_of(table, folder_of(table), file_pruning_predicate=predicate)
    field = dataset.field("msg_id")
    batches = rows.scanner(
        columns=list(COLUMNS),
        filter=(field >= ids.first) & (field <= ids.last),
        batch_size=_BATCH_ROWS,
        batch_readahead=1,
        fragment_readahead=1,
    ).to_batches()
    seen: set[tuple[int, int]] = set()
    for batch in batches:
        found = hashed(batch)
        for key in zip(found.msg_ids, found.enqueued_us, strict=True):
            if key in seen:
                raise SluiceError(
                    f"the lake table in {table.table_uri} holds the message with msg_id {key[0]} twice; nothing of "
                    "it was dropped from PostgreSQL: see who else writes into the table"
                )
            seen.add(key)
        yield found


def hashed(batch: pa.RecordBatch) -> Found:
    """The ids and hashes of archived messages."""
    lines = pc.binary_join_element_wise(
        *(_text(batch.column(name)) for name in COLUMNS),
        pa.scalar("\n", pa.large_string()),
        null_handling="replace",
        null_replacement="",
    )
    return Found(
        batch.column("msg_id").to_pylist(),
        batch.column("enqueued_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist(),
        [hashlib.sha256(line).digest() for line in lines.cast(pa.large_binary()).to_pylist()],
    )


def force_to_disk(folder: Path, files: Iterable[str]) -> None:
    """Force files of a table, and its log, to disk.

    Who wrote them may have been killed before it did: they can be read then, and a power failure may still take
    them away.

    Args:
        folder: The table's.
        files: Their paths in it.
    """
    log = folder / "_delta_log"
    data = [folder / file for file in files]
    for path in [*data, *log.iterdir()]:
        sync_file(path)
    for parent in {log, folder, *(path.parent for path in data)}:
        sync_folder(parent)


def _text(column: pa.Array) -> Any:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return column.cast(pa.large_string())
