"""Replace files of an Iceberg table, with bounded metadata.

pyiceberg's overwrite keeps every manifest, also those that only list deleted files, so each commit would add two. It
merges manifests only when it appends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles

from pgsluice.lake.files import LakeFile

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Transaction

_MANIFEST_BYTES = 8 << 20  # Iceberg's default
_MANIFESTS_MIN = 20


class _Overwriting(_OverwriteFiles):  # type: ignore[misc]
    def _existing_manifests(self) -> list[ManifestFile]:
        return [
            manifest
            for manifest in super()._existing_manifests()
            if manifest.has_added_files() or manifest.has_existing_files()
        ]

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        data = [one for one in manifests if one.content == ManifestContent.DATA]
        others = [one for one in manifests if one.content != ManifestContent.DATA]
        merging = _ManifestMergeManager(_MANIFEST_BYTES, _MANIFESTS_MIN, True, self)
        return [*merging.merge_manifests(data), *others]


def replace_files(
    transaction: Transaction,
    removed: Iterable[DataFile],
    added: Iterable[LakeFile],
    summary: Mapping[str, str] | None = None,
) -> None:
    """Add and delete files of a table, in one snapshot with these properties."""
    metadata, io = transaction.table_metadata, transaction._table.io  # noqa: SLF001 - as pyiceberg's own producers
    is_first = metadata.current_snapshot_id is None
    with _Overwriting(
        operation=Operation.APPEND if is_first else Operation.OVERWRITE,
        transaction=transaction,
        io=io,
        snapshot_properties=dict(summary or {}),
    ) as files:
        for file in removed:
            files.delete_data_file(file)
        for new in added:
            path = f"{metadata.location}/data/{new.path}"
            files.append_data_file(parquet_file_to_data_file(io, metadata, path))
