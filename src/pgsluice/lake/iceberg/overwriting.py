"""Replace files of an Iceberg table, with bounded metadata.

pyiceberg's overwrite keeps every manifest, also those that only list deleted files, so each commit would add two. It
merges manifests only when it appends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles

if TYPE_CHECKING:
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


def overwriting(transaction: Transaction) -> _OverwriteFiles:
    """Return a context in which files are added and deleted, in one snapshot."""
    return _Overwriting(
        operation=Operation.OVERWRITE
        if transaction.table_metadata.current_snapshot_id is not None
        else Operation.APPEND,
        transaction=transaction,
        io=transaction._table.io,  # noqa: SLF001 - as pyiceberg's own producers
    )
