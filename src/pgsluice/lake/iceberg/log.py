"""Read the log of an Iceberg table commit by commit; a version is the sequence number of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.changes import DataFile, LakeCommit, LakeLog
from pgsluice.lake.columns import plain
from pgsluice.lake.iceberg.catalog import (
    folder_of,
    load_table,
    name_of,
    opened_catalog,
    plain_files,
)
from pgsluice.lake.iceberg.features import require_plain

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

# Property of the snapshots of our compaction: pyiceberg writes them as overwrites, not as Iceberg's `replace`.
COMPACTION = "pgsluice.compaction"


@dataclass(frozen=True, slots=True)
class IcebergLog(LakeLog):
    """Log of the Iceberg table at an address."""

    address: IcebergAddress

    def __str__(self) -> str:
        return f"the lake table {self.address}"

    def newest(self) -> tuple[str, int]:
        with self._opened() as table:
            if table.metadata.format_version < 2:
                raise ConfigurationError(
                    f"{self} has format version 1, whose snapshots are not numbered; upgrade it to version 2 to stream "
                    "it"
                )
            return str(table.metadata.table_uuid), table.metadata.last_sequence_number

    def files(self, version: int) -> list[DataFile]:
        with self._opened() as table:
            before = [one for one in _lineage(table) if (one.sequence_number or 0) <= version]
            if not before:
                return []
            found = plain_files(table, self.address, snapshot_id=before[0].snapshot_id)
            return sorted(
                (self._file(table, file) for file in found),
                key=lambda file: file.path,
            )

    def commit(self, version: int) -> LakeCommit | None:
        from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
        from pyiceberg.table import FileScanTask
        from pyiceberg.table.snapshots import Operation

        with self._opened() as table:
            numbered = [one for one in table.snapshots() if one.sequence_number == version]
            if not numbered:
                return None
            (snapshot,) = numbered
            summary = snapshot.summary
            operation = summary.operation if summary else None
            rearranges = operation is Operation.REPLACE or (
                summary is not None and COMPACTION in summary.additional_properties
            )
            # A snapshot of another branch is no commit of the table that is read.
            if rearranges or snapshot not in _lineage(table):
                return LakeCommit([], removes_rows=False, columns=None)
            entries = [
                entry.data_file
                for manifest in snapshot.manifests(table.io)
                if manifest.content is ManifestContent.DATA
                and manifest.added_snapshot_id == snapshot.snapshot_id
                for entry in manifest.fetch_manifest_entry(table.io)
                if entry.status is ManifestEntryStatus.ADDED
                and entry.snapshot_id in (None, snapshot.snapshot_id)
            ]
            require_plain(table, [FileScanTask(file) for file in entries], str(self.address))
            added = [self._file(table, file) for file in entries]
            schema = table.schemas().get(snapshot.schema_id or 0, table.schema())
            return LakeCommit(
                sorted(added, key=lambda file: file.path),
                removes_rows=operation is not Operation.APPEND,
                columns=plain(schema.as_arrow()),
            )

    def since(self, moment: datetime) -> int:
        with self._opened() as table:
            later = [
                one.sequence_number or 0
                for one in _lineage(table)
                if one.timestamp_ms >= moment.timestamp() * 1000
            ]
            return min(later, default=table.metadata.last_sequence_number + 1)

    def _file(self, table: Table, file: IcebergFile) -> DataFile:
        folder = folder_of(table.location(), self.address)
        return DataFile(folder, name_of(folder, file), file.file_size_in_bytes, {})

    @contextmanager
    def _opened(self) -> Iterator[Table]:
        with opened_catalog(self.address.catalog) as catalog:
            table = load_table(catalog, self.address)
            if table is None:
                raise ConfigurationError(
                    f"there is no lake table {self.address}; write to it first"
                )
            require_plain(table, [], str(self.address))
            yield table


def _lineage(table: Table) -> list[Snapshot]:
    """Return the newest snapshot and those before it that are kept, newest first."""
    from pyiceberg.table.snapshots import ancestors_of

    return list(ancestors_of(table.current_snapshot(), table.metadata))
