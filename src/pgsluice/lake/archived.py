"""Read archived messages back from a Delta table without Spark and hash them for comparison with PostgreSQL.

The check shares no code with the writer: it finds the files in the Delta log, and reads and hashes them with Arrow.
The server hashes its rows by the same rule, in sql/sluice/functions/exports/verify_exported.sql.
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
from pgsluice.lake.storage import Folder, sync

# In hash order.
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
# Memory holds all ids and hashes of one range, about 15 MB, but only one batch of messages.
_RANGE_MESSAGES = 100_000
_RANGE_GAP = 1_000
_RANGES_MAX = 50
_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class IdRange:
    """Inclusive range of ids."""

    first: int
    last: int


@dataclass(frozen=True)
class Found:
    """Rows of the lake as parallel lists: msg_id, enqueued_at in microseconds since 1970, and hash."""

    msg_ids: list[int]
    enqueued_us: list[int]
    hashes: list[bytes]


def ranges_of(backlog: Sequence[Backlog]) -> list[IdRange]:
    """Cover all ids of a backlog with few ranges of bounded size that include few other ids."""
    gap = _RANGE_GAP
    most = _RANGES_MAX + 2 * sum(part.messages for part in backlog) // _RANGE_MESSAGES
    while len(ranges := _joined(backlog, gap)) > most:
        gap *= 8  # scattered ids would give one range, and one scan, for each
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
    """Return the paths of files that may hold messages with these ids; file statistics exclude the others."""
    predicate = [[("msg_id", ">=", ids.first), ("msg_id", "<=", ids.last)] for ids in ranges]
    if not predicate:
        return set()
    # In file URIs, delta-rs encodes the folder of the table but not the path below it.
    folder = table.table_uri.removeprefix("file://")
    uris = table.file_uris(file_pruning_predicate=predicate)
    return {uri.removeprefix("file://").removeprefix(folder) for uri in uris}


def read_again(table: DeltaTable, ids: IdRange) -> Iterator[Found]:
    """Read and hash the rows with these ids, in batches.

    Raises:
        SluiceError: The table contains a message twice.
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
                    f"the lake table in {table.table_uri} holds the message with msg_id {key[0]} twice; its copy in "
                    "PostgreSQL was not dropped; find the other writer of the table and remove the duplicate"
                )
            seen.add(key)
        yield found


def hashed(batch: pa.RecordBatch) -> Found:
    """Hash archived messages."""
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


def force_to_disk(folder: Folder, files: Iterable[str]) -> None:
    """Fsync files of a table and its log.

    A writer killed before its own fsync leaves files that are readable but do not survive a power failure.

    Args:
        folder: Folder of the table.
        files: Paths relative to the folder.
    """
    log = []
    if isinstance(folder, Path):
        log = [f"_delta_log/{path.name}" for path in (folder / "_delta_log").iterdir()]
    sync(folder, [*files, *log])


def _text(column: pa.Array) -> Any:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return column.cast(pa.large_string())
