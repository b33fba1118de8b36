"""Maintenance jobs for Delta tables; see `jobs`."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import CommitProperties

from pgsluice.errors import SluiceError
from pgsluice.lake.columns import plain
from pgsluice.lake.compaction import bins, rows_of
from pgsluice.lake.delta.commits import commit_files, rewriting
from pgsluice.lake.delta.files import TableFile, files_of, paths_of, row_count
from pgsluice.lake.delta.opening import Use, open_delta
from pgsluice.lake.files import LakeFile, write_files
from pgsluice.lake.job_results import (
    TARGET_MB_DEFAULT,
    Commit,
    Compaction,
    TableVersion,
    Vacuum,
)
from pgsluice.lake.reservation import check_retention, vacuumed
from pgsluice.lake.storage import Folder


def compact(folder: Folder, *, target_bytes: int) -> Compaction:
    """See `jobs.compact`.

    Not delta-rs's own compaction (1.6.6): two concurrent runs duplicate the rows, as does one run concurrent with a
    commit that removes files by name. Also, pyarrow cannot filter text columns in the files it writes.
    """
    table = open_delta(folder, Use.COMPACT)
    columns = table.metadata().partition_columns
    schema = plain(pa.schema(table.schema().to_arrow()))
    old: list[TableFile] = []
    new: list[LakeFile] = []
    for small in bins(
        files_of(table),
        group=lambda file: tuple(file.partition.values()),
        size_bytes=lambda file: file.size_bytes,
        target_bytes=target_bytes,
    ):
        rows = rows_of(folder, [file.path for file in small], schema, small[0].partition)
        old += small
        new += write_files(folder, schema, rows, part=0, partition_by=columns)
    if old:
        table = _replaced(folder, old, new)
    return Compaction(len(old), len(new), table.version())


def vacuum(folder: Folder, *, retention_hours: float, dry_run: bool) -> Vacuum:
    """See `jobs.vacuum`."""
    check_retention(folder, retention_hours)
    table = open_delta(folder, Use.VACUUM)
    return vacuumed(
        folder,
        _unneeded(table, retention_hours),
        age_s=retention_hours * 3600,
        named=lambda: paths_of(open_delta(folder, Use.VACUUM)),
        dry_run=dry_run,
    )


def show(folder: Folder, *, history: int) -> TableVersion:
    """See `jobs.show`."""
    table = open_delta(folder, Use.READ)
    actions = table.get_add_actions(flatten=True)
    sizes = actions.column("size_bytes").to_pylist()
    return TableVersion(
        format="delta",
        version=table.version(),
        rows=row_count(table),
        files=len(sizes),
        size_bytes=sum(sizes),
        small_files=sum(size < (TARGET_MB_DEFAULT << 20) // 4 for size in sizes),
        partition_by=list(table.metadata().partition_columns),
        columns=[f"{field.name} {_type_name(field.type)}" for field in table.schema().fields],
        history=[_commit(entry) for entry in table.history(history)],
    )


def _replaced(folder: Folder, old: list[TableFile], new: list[LakeFile]) -> DeltaTable:
    changed = SluiceError(
        f"compaction of the lake table in {folder} failed: a concurrent commit replaced its files; run it again"
    )
    table = open_delta(folder, Use.COMPACT)
    if {file.path for file in old} - paths_of(table):
        raise changed
    properties = CommitProperties(app_transactions=[rewriting(table)])
    try:
        commit_files(table, new, old, properties=properties, rows_change=False)
    except CommitFailedError as error:
        raise changed from error
    return table


def _unneeded(table: DeltaTable, retention_hours: float) -> list[str]:
    """Return files in the folder that no version within the retention references, including uncommitted files."""
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
