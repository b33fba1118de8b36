"""Maintenance jobs for Iceberg tables; see `jobs`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.compaction import bins, rows_of
from pgsluice.lake.files import LakeFile, write_files
from pgsluice.lake.iceberg.catalog import (
    columns_of,
    folder_of,
    load_table,
    name_in,
    name_of,
    opened_catalog,
    partition_columns,
    plain_files,
    retry_conflicts,
    sync_newest,
)
from pgsluice.lake.iceberg.log import COMPACTION
from pgsluice.lake.job_results import (
    TARGET_MB_DEFAULT,
    Commit,
    Compaction,
    TableVersion,
    Vacuum,
)
from pgsluice.lake.reservation import (
    check_retention,
    claim,
    vacuumed,
)
from pgsluice.lake.storage import Folder, files_in

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table


def compact(address: IcebergAddress, *, target_bytes: int) -> Compaction:
    """See `jobs.compact`."""
    with opened_catalog(address.catalog) as catalog:
        table = _open(catalog, address)
        folder = folder_of(table.location(), address)
        data = folder / "data"
        old: list[DataFile] = []
        new: list[LakeFile] = []
        for small in bins(
            plain_files(table, address),
            group=lambda file: (file.spec_id, file.partition),
            size_bytes=lambda file: int(file.file_size_in_bytes),
            target_bytes=target_bytes,
        ):
            old += small
            new += _rewritten(table, address, folder, small)
        if old:
            claim(data, new)
            table = _committed(catalog, address, lambda newest: _replace(newest, address, old, new))
            sync_newest(table)
        snapshot = table.current_snapshot()
        return Compaction(len(old), len(new), snapshot.snapshot_id if snapshot else 0)


def vacuum(address: IcebergAddress, *, retention_hours: float, dry_run: bool) -> Vacuum:
    """See `jobs.vacuum`."""
    oldest = datetime.now(UTC) - timedelta(hours=retention_hours)
    with opened_catalog(address.catalog) as catalog:
        table = _open(catalog, address)
        folder = folder_of(table.location(), address)
        check_retention(folder, retention_hours)
        if not dry_run and len(_kept(table, oldest)) < len(table.snapshots()):
            table = _committed(
                catalog,
                address,
                lambda newest: newest.maintenance.expire_snapshots().older_than(oldest).commit(),
            )
        named = _named(table, address, oldest)
        # Other files in the folder belong to the user.
        unneeded = [
            f"{part}/{name}"
            for part in ("data", "metadata")
            for name, _, _ in files_in(folder / part)
            if f"{part}/{name}" not in named
        ]
        return vacuumed(
            folder,
            unneeded,
            age_s=retention_hours * 3600,
            named=lambda: _named(_open(catalog, address), address, oldest),
            dry_run=dry_run,
        )


def show(address: IcebergAddress, *, history: int) -> TableVersion:
    """See `jobs.show`."""
    with opened_catalog(address.catalog) as catalog:
        table = _open(catalog, address)
        files = [task.file for task in table.scan().plan_files()]
        snapshot = table.current_snapshot()
        newest_first = sorted(
            table.snapshots(), key=lambda one: one.sequence_number or 0, reverse=True
        )
        return TableVersion(
            format="iceberg",
            version=snapshot.snapshot_id if snapshot else 0,
            rows=sum(file.record_count for file in files),
            files=len(files),
            size_bytes=sum(file.file_size_in_bytes for file in files),
            small_files=sum(
                file.file_size_in_bytes < (TARGET_MB_DEFAULT << 20) // 4 for file in files
            ),
            partition_by=list(partition_columns(table, address)),
            columns=[f"{column.name} {column.field_type}" for column in table.schema().fields],
            history=[
                Commit(
                    version=one.snapshot_id,
                    committed_at=datetime.fromtimestamp(one.timestamp_ms / 1000, UTC),
                    operation=one.summary.operation.value if one.summary else "unknown",
                )
                for one in newest_first[:history]
            ],
        )


def _open(catalog: Catalog, address: IcebergAddress) -> Table:
    table = load_table(catalog, address)
    if table is None:
        raise ConfigurationError(f"there is no lake table {address}; run a pipeline into it first")
    return table


def _committed(catalog: Catalog, address: IcebergAddress, change: Callable[[Table], None]) -> Table:
    """Commit a change to the newest version, with retries after conflicts; return the table afterwards."""
    retry_conflicts(lambda: change(_open(catalog, address)), address)
    return _open(catalog, address)


def _rewritten(
    table: Table, address: IcebergAddress, folder: Folder, small: list[DataFile]
) -> tuple[LakeFile, ...]:
    schema = columns_of(table)
    return write_files(
        folder / "data",
        schema,
        rows_of(folder, [name_of(folder, file) for file in small], schema, may_drop=True),
        part=0,
        partition_by=partition_columns(table, address),
        keep_partition_columns=True,
    )


def _replace(
    table: Table, address: IcebergAddress, old: list[DataFile], new: list[LakeFile]
) -> None:
    from pyiceberg.exceptions import ValidationException

    from pgsluice.lake.iceberg.overwriting import replace_files

    try:
        with table.transaction() as transaction:
            replace_files(transaction, old, new, {COMPACTION: "true"})
    except ValidationException as error:
        raise SluiceError(
            f"compaction of the lake table {address} failed: a concurrent commit replaced its files: {error}; "
            "run it again"
        ) from error


def _kept(table: Table, oldest: datetime) -> list[Any]:
    """Return the snapshots to keep: those since `oldest`, and those of a branch or tag."""
    referred = {ref.snapshot_id for ref in table.metadata.refs.values()}
    return [
        one
        for one in table.snapshots()
        if one.snapshot_id in referred or one.timestamp_ms >= oldest.timestamp() * 1000
    ]


def _named(table: Table, address: IcebergAddress, oldest: datetime) -> set[str]:
    """Return all files that the kept snapshots reference, relative to the folder of the table."""
    paths = {table.metadata_location}
    paths |= {entry.metadata_file for entry in table.metadata.metadata_log}
    paths |= {one.statistics_path for one in table.metadata.statistics}
    paths |= {one.statistics_path for one in table.metadata.partition_statistics}
    manifests = {}
    for snapshot in _kept(table, oldest):
        paths.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            manifests[manifest.manifest_path] = manifest
    for path, manifest in manifests.items():
        paths.add(path)
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        paths |= {entry.data_file.file_path for entry in entries}
    folder = folder_of(table.location(), address)
    return {name for path in paths if (name := name_in(folder, path)) is not None}
