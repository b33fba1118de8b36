"""The jobs of a Delta table; see `jobs`."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.spark.lake.disk import sync_delta_log, sync_file, sync_folder
from pgsluice.spark.lake.jobs import TARGET_MB_DEFAULT, Commit, Compaction, TableState, Vacuum
from pgsluice.spark.lake.reading import files_of
from pgsluice.spark.lake.taking import old_files, take_away

_HOUR_S = 3600


def compact(folder: Path, *, target_bytes: int) -> Compaction:
    """See `jobs.compact`."""
    table = _open(folder)
    version, before = table.version(), _files(table)
    try:
        metrics = table.optimize.compact(target_size=target_bytes)
    except CommitFailedError as error:
        raise SluiceError(
            f"rows of the lake table in {folder} were removed or rewritten while it was compacted: {error}; run "
            "it again"
        ) from error
    # The old files must not go before the new ones are on the disk.
    for name in _files(table) - before:
        sync_file(folder / name)
        sync_folder((folder / name).parent)
    sync_delta_log(folder, version + 1, table.version())
    return Compaction(metrics["numFilesRemoved"], metrics["numFilesAdded"], table.version())


def vacuum(folder: Path, *, retention_hours: float, dry_run: bool) -> Vacuum:
    """See `jobs.vacuum`."""
    table = _open(folder)
    age_s = retention_hours * _HOUR_S
    unneeded = _unneeded(table, retention_hours)
    if dry_run:
        names = old_files(folder, unneeded, age_s=age_s)
        return Vacuum(names, sum((folder / name).stat().st_size for name in names))
    removed, size_bytes = take_away(
        folder, unneeded, age_s=age_s, named=lambda: _files(DeltaTable(str(folder)))
    )
    return Vacuum(removed, size_bytes)


def show(folder: Path, *, history: int) -> TableState:
    """See `jobs.show`."""
    table = _open(folder)
    actions = table.get_add_actions(flatten=True)
    sizes = actions.column("size_bytes").to_pylist()
    return TableState(
        format="delta",
        version=table.version(),
        rows=sum(actions.column("num_records").to_pylist()),
        files=len(sizes),
        size_bytes=sum(sizes),
        small_files=sum(size < (TARGET_MB_DEFAULT << 20) // 4 for size in sizes),
        partition_by=list(table.metadata().partition_columns),
        columns=[f"{field.name} {_type_name(field.type)}" for field in table.schema().fields],
        history=[_commit(entry) for entry in table.history(history)],
    )


def _open(folder: Path) -> DeltaTable:
    if not DeltaTable.is_deltatable(str(folder)):
        raise ConfigurationError(
            f"there is no lake table in {folder}; run a pipeline into it first"
        )
    return DeltaTable(str(folder))


def _files(table: DeltaTable) -> set[str]:
    """The files of the table as they are named on the disk."""
    return {file.path for file in files_of(table)}


def _unneeded(table: DeltaTable, retention_hours: float) -> list[str]:
    """Files in the folder that no version of the last hours names, in flight or not."""
    unneeded: list[str] = table.vacuum(
        retention_hours=math.ceil(retention_hours),
        dry_run=True,
        enforce_retention_duration=False,
        full=True,
    )
    return unneeded


def _commit(entry: dict[str, Any]) -> Commit:
    return Commit(
        version=entry["version"],
        committed_at=datetime.fromtimestamp(entry["timestamp"] / 1000, UTC),
        operation=entry["operation"],
    )


def _type_name(kind: Any) -> str:
    name: str = getattr(kind, "type", str(kind))
    return name if isinstance(name, str) else str(kind)
