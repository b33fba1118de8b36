"""Read archived messages back from a lake table without Spark and hash them for comparison with PostgreSQL.

The check shares no code with the writer: it finds the files in the table's log, and reads and hashes them with Arrow.
The server hashes its rows by the same rule, in sql/sluice/functions/exports/verify_exported.sql.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from pgsluice.client.calls.spark_exports import Backlog
from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.delta.files import paths_of, row_count
from pgsluice.lake.delta.opening import Use, dataset_of, open_delta
from pgsluice.lake.iceberg.catalog import (
    columns_of,
    folder_of,
    load_table,
    name_of,
    opened_catalog,
    partition_columns,
    plain_files,
    sync_newest,
)
from pgsluice.lake.iceberg.table import committed_version
from pgsluice.lake.skipping import Condition
from pgsluice.lake.storage import Folder, dataset, sync

if TYPE_CHECKING:
    from pyiceberg.table import Table

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


class ArchivedTable(ABC):
    """Lake table with archived messages, at the version at which it was opened.

    Attributes:
        id: Id of the table, which a move keeps.
        folder: Folder of its files.
        partition_by: Its partition columns.
        reading: Spark format and option that read this version.
    """

    id: str
    folder: Folder
    partition_by: tuple[str, ...]
    reading: tuple[str, dict[str, str]]

    @abstractmethod
    def last_version(self, app_id: str) -> int | None:
        """Return the last version that an app committed; None without a commit."""

    @abstractmethod
    def row_count(self) -> int:
        """Return the number of rows from table statistics."""

    @abstractmethod
    def files(self, ranges: Iterable[IdRange] | None = None) -> set[str]:
        """Return the paths of files that may hold messages with these ids, relative to `folder`; None for all ids."""

    @abstractmethod
    def rows(self, ids: IdRange) -> pyarrow.dataset.Dataset:
        """Return a dataset with at least the rows with these ids."""

    @abstractmethod
    def force_to_disk(self, files: Iterable[str]) -> None:
        """Fsync files of the table and its log.

        A writer killed before its own fsync leaves files that are readable but do not survive a power failure.
        """


def open_archived(place: Folder | IcebergAddress) -> ArchivedTable:
    """Open the newest version of an existing table.

    Raises:
        ConfigurationError: It does not exist, or uses an unsupported feature.
    """
    if isinstance(place, IcebergAddress):
        return _InIceberg(place)
    return _InDelta(place)


class _InDelta(ArchivedTable):
    def __init__(self, folder: Folder) -> None:
        table = self._table = open_delta(folder, Use.APPEND)
        self.id = str(table.metadata().id)
        self.folder = folder
        self.partition_by = tuple(table.metadata().partition_columns)
        self.reading = "pgsluice-delta", {"versionAsOf": str(table.version())}

    def __str__(self) -> str:
        return f"the lake table in {self.folder}"

    def last_version(self, app_id: str) -> int | None:
        version: int | None = self._table.transaction_version(app_id)
        return version

    def row_count(self) -> int:
        return row_count(self._table)

    def files(self, ranges: Iterable[IdRange] | None = None) -> set[str]:
        if ranges is None:
            return paths_of(self._table)
        predicate = [_predicate(ids) for ids in ranges]
        if not predicate:
            return set()
        # In file URIs, delta-rs encodes the folder of the table but not the path below it.
        folder = self._table.table_uri.removeprefix("file://")
        uris = self._table.file_uris(file_pruning_predicate=predicate)
        return {uri.removeprefix("file://").removeprefix(folder) for uri in uris}

    def rows(self, ids: IdRange) -> pyarrow.dataset.Dataset:
        return dataset_of(self._table, self.folder, file_pruning_predicate=_predicate(ids))

    def force_to_disk(self, files: Iterable[str]) -> None:
        log = []
        if isinstance(self.folder, Path):
            log = [f"_delta_log/{path.name}" for path in (self.folder / "_delta_log").iterdir()]
        sync(self.folder, [*files, *log])


class _InIceberg(ArchivedTable):
    def __init__(self, address: IcebergAddress) -> None:
        with opened_catalog(address.catalog) as catalog:
            table = load_table(catalog, address)
        if table is None:
            raise ConfigurationError(
                f"there is no lake table {address}; run a pipeline into it first"
            )
        self._table: Table = table
        self._address = address
        self.id = str(table.metadata.table_uuid)
        self.folder = folder_of(table.location(), address)
        self.partition_by = partition_columns(table, address)
        snapshot = table.current_snapshot()
        option = {} if snapshot is None else {"snapshot-id": str(snapshot.snapshot_id)}
        self.reading = "pgsluice-iceberg", option

    def __str__(self) -> str:
        return f"the lake table {self._address}"

    def last_version(self, app_id: str) -> int | None:
        return committed_version(self._table, app_id)

    def row_count(self) -> int:
        return int(self._table.scan().count())

    def files(self, ranges: Iterable[IdRange] | None = None) -> set[str]:
        any_of = None if ranges is None else [_conditions(ids) for ids in ranges]
        if any_of == []:
            return set()
        files = plain_files(self._table, self._address, any_of=any_of or ())
        return {name_of(self.folder, file) for file in files}

    def rows(self, ids: IdRange) -> pyarrow.dataset.Dataset:
        return dataset(self.folder, self.files([ids]), columns_of(self._table))

    def force_to_disk(self, files: Iterable[str]) -> None:
        sync(self.folder, files)
        sync_newest(self._table, with_older=True)


def _predicate(ids: IdRange) -> list[tuple[str, str, int]]:
    return [("msg_id", ">=", ids.first), ("msg_id", "<=", ids.last)]


def _conditions(ids: IdRange) -> list[Condition]:
    return [Condition("msg_id", ">=", ids.first), Condition("msg_id", "<=", ids.last)]


def read_again(table: ArchivedTable, ids: IdRange) -> Iterator[Found]:
    """Read and hash the rows with these ids, in batches.

    Raises:
        SluiceError: The table contains a message twice.
    """
    field = pc.field("msg_id")
    batches = (
        table.rows(ids)
        .scanner(
            columns=list(COLUMNS),
            filter=(field >= ids.first) & (field <= ids.last),
            batch_size=_BATCH_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
        )
        .to_batches()
    )
    seen: set[tuple[int, int]] = set()
    for batch in batches:
        found = hashed(batch)
        for key in zip(found.msg_ids, found.enqueued_us, strict=True):
            if key in seen:
                raise SluiceError(
                    f"{table} holds the message with msg_id {key[0]} twice; its copy in "
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


def _text(column: pa.Array) -> Any:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return column.cast(pa.large_string())
