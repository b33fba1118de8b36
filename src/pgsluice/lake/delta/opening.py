"""Open Delta tables and refuse unsupported table features, per operation.

A table of another tool may use Delta features that its Parquet files do not show, or that require more of a writer
than adding files. Features not listed here are refused. A table declares features in three places: the feature lists of
its protocol, protocol versions that imply features, and the table properties and column metadata that enable them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pgsluice.errors import ConfigurationError, StoreError
from pgsluice.lake.file_errors import UnusableTableError, is_of_store
from pgsluice.lake.storage import Folder, filesystem, folder_at

if TYPE_CHECKING:
    import pyarrow.dataset
    from deltalake import DeltaTable


class Use(Enum):
    """Operation on a table; the value completes the error text "pgsluice cannot …"."""

    READ = "read it"
    APPEND = "append to it"
    COMPACT = "compact it"
    VACUUM = "remove its old files"
    MERGE = "change its rows"  # by delta-rs: merge, delete, overwrite
    REPLACE = "replace its files"  # by our own commits, with other rows


@dataclass(frozen=True, slots=True)
class _Definition:
    """Table metadata that enables features."""

    properties: Mapping[str, str]
    columns: frozenset[str]  # metadata keys of all columns, nested columns included


@dataclass(frozen=True, slots=True)
class _Feature:
    """Delta table feature.

    Attributes:
        allows: Operations supported on a table that uses it.
        is_used: True if a table uses it; a protocol may list unused features.
    """

    allows: frozenset[Use]
    is_used: Callable[[_Definition], bool]


def _by_property(name: str, unused: str) -> Callable[[_Definition], bool]:
    return lambda table: table.properties.get(name, unused).strip().lower() != unused


def _by_column(key: str) -> Callable[[_Definition], bool]:
    return lambda table: key in table.columns


def _has_constraint(table: _Definition) -> bool:
    return any(name.startswith("delta.constraints.") for name in table.properties)


_ALL = frozenset(Use)
_ROWS_STAY = frozenset({Use.READ, Use.COMPACT, Use.VACUUM})
_FEATURES = {
    # Our commits that change rows remove files.
    "appendOnly": _Feature(
        _ALL - {Use.MERGE, Use.REPLACE}, _by_property("delta.appendOnly", "false")
    ),
    # pgsluice evaluates no constraints and computes no columns. Compaction keeps values that were checked on write.
    "invariants": _Feature(_ROWS_STAY, _by_column("delta.invariants")),
    "checkConstraints": _Feature(_ROWS_STAY, _has_constraint),
    "generatedColumns": _Feature(_ROWS_STAY, _by_column("delta.generationExpression")),
    # delta-rs refuses every commit to such a table.
    "identityColumns": _Feature(
        frozenset({Use.READ, Use.VACUUM}), _by_column("delta.identity.start")
    ),
    # Appends need no change files, compaction commits with dataChange = false, and delta-rs writes them for a merge.
    "changeDataFeed": _Feature(
        _ALL - {Use.REPLACE}, _by_property("delta.enableChangeDataFeed", "false")
    ),
    # Column names in the files differ from the table's.
    "columnMapping": _Feature(frozenset(), _by_property("delta.columnMapping.mode", "none")),
    "timestampNtz": _Feature(_ALL, lambda _table: False),
    # Requires a protocol check before a vacuum, which `require_delta` does for every table.
    "vacuumProtocolCheck": _Feature(_ALL, lambda _table: False),
}
_READER_VERSION_MAX, _WRITER_VERSION_MAX = 3, 7
# First version that lists features instead of implying them.
_READER_VERSION_LISTED, _WRITER_VERSION_LISTED = 3, 7
# delta-rs refuses commits to tables of this version, as it implies identity columns, used or not.
_WRITER_VERSION_REFUSED = 6
# Properties that do not change the meaning of files and commits, or that belong to a feature above.
_PROPERTIES = (
    "delta.appendOnly",
    "delta.autoOptimize*",
    "delta.checkpoint.writeStatsAsJson",
    "delta.checkpoint.writeStatsAsStruct",
    "delta.checkpointInterval",
    "delta.checkpointRetentionDuration",
    "delta.columnMapping.maxColumnId",
    "delta.columnMapping.mode",
    "delta.constraints.*",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.deletedFileRetentionDuration",
    "delta.enableChangeDataFeed",
    "delta.enableExpiredLogCleanup",
    "delta.feature.*",
    "delta.isolationLevel",
    "delta.lastCommitTimestamp",
    "delta.lastUpdateVersion",
    "delta.logRetentionDuration",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.randomPrefixLength",
    "delta.randomizeFilePrefixes",
    "delta.sampleRetentionDuration",
    "delta.targetFileSize",
    "delta.tuneFileSizesForRewrites",
)
# Properties that are accepted with the value that disables their feature.
_OFF = {
    "delta.checkpointPolicy": "classic",
    "delta.enableDeletionVectors": "false",
    "delta.enableIcebergCompatV1": "false",
    "delta.enableIcebergCompatV2": "false",
    "delta.enableInCommitTimestamps": "false",
    "delta.enableRowTracking": "false",
    "delta.enableTypeWidening": "false",
}


def is_delta(folder: Folder) -> bool:
    """True if the folder contains a Delta table."""
    from deltalake import DeltaTable

    return bool(DeltaTable.is_deltatable(str(folder)))


def open_delta(folder: Folder, use: Use, *, version: int | None = None) -> DeltaTable:
    """Open the Delta table in a folder for an operation.

    Args:
        folder: Folder of the table.
        use: Operation to check the table's features for.
        version: Table version; None for the newest.

    Raises:
        ConfigurationError: The table or version does not exist, or uses a feature not supported for this operation.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if not is_delta(folder):
        raise ConfigurationError(
            f"there is no lake table in {folder}; run a pipeline into it first"
        )
    try:
        table = DeltaTable(str(folder), version=version)
    except DeltaError as error:
        if is_of_store(error):
            raise StoreError(
                f"the lake table in {folder} cannot be opened: {_first_line(error)}; run it again"
            ) from None
        raise UnusableTableError(
            f"the lake table in {folder} cannot be opened: {_first_line(error)}; open it with the tool that wrote it, "
            "or restore its log"
        ) from None
    return require_delta(table, folder, use)


def version_at(folder: Folder, moment: datetime) -> int:
    """Return the newest version of a Delta table that was committed at or before a time.

    Raises:
        ConfigurationError: The table does not exist, cannot be read, or has no such version any more.
    """
    found = max((v for v, time_ms in _times(folder) if time_ms <= _ms(moment)), default=None)
    if found is None:
        raise ConfigurationError(
            f"the lake table in {folder} has no version of {moment.isoformat()}; choose a time since its oldest commit"
        )
    return found


def version_since(folder: Folder, moment: datetime) -> int:
    """Return the oldest version of a Delta table that was committed at or after a time, or else the next version.

    Raises:
        ConfigurationError: The table does not exist or cannot be read.
    """
    times = _times(folder)
    return min((v for v, time_ms in times if time_ms >= _ms(moment)), default=times[-1][0] + 1)


def _times(folder: Folder) -> list[tuple[int, int]]:
    """Return the versions in the log with the times of their commits, oldest first; times never decrease.

    delta-rs would use modification times, which change when a lake is copied.
    """
    found: list[tuple[int, int]] = []
    for commit in reversed(open_delta(folder, Use.READ).history()):
        before = found[-1][1] if found else 0
        found.append((int(commit["version"]), max(before, commit.get("timestamp", 0))))
    return found


def _ms(moment: datetime) -> float:
    return moment.timestamp() * 1000


def require_delta(table: DeltaTable, folder: Folder, use: Use) -> DeltaTable:
    """Return the table if all features it uses are supported for the operation.

    Raises:
        UnusableTableError: It uses an unsupported feature or property; the message names them.
    """
    found = _unsupported(table, use)
    if found:
        raise UnusableTableError(
            f"the lake table in {folder} uses {', '.join(found)}: pgsluice cannot {use.value}; use the tool that "
            "made it, or copy its rows into a table without that feature"
        )
    return table


def local_path(path: str, folder: object) -> str:
    """Return the path of a table's file as on disk, relative to the folder of the table.

    Raises:
        ConfigurationError: The file is outside the folder, as in a shallow clone.
    """
    if "://" in path or path.startswith(("/", "file:")):
        raise UnusableTableError(
            f"the lake table in {folder} has files outside its folder, such as {path}; copy its rows into a new "
            "table"
        )
    return unquote(path)  # Delta's log has URLs


def folder_of(table: DeltaTable) -> Folder:
    """Return the folder of an opened table; delta-rs returns an encoded URL."""
    return folder_at(unquote(table.table_uri))


def open_dataset(lake: str | Folder, *, version: int | None = None) -> pyarrow.dataset.Dataset:
    """Open a Delta table as a pyarrow dataset, without Spark and Java.

    Args:
        lake: Folder of the table, or its URL in an object store.
        version: Table version; None for the newest.

    Raises:
        ConfigurationError: The table or version does not exist, or uses a feature not supported for reading.
    """
    folder = folder_at(lake)
    return dataset_of(open_delta(folder, Use.READ, version=version), folder)


def dataset_of(
    table: DeltaTable, folder: Folder, *, file_pruning_predicate: Any = None
) -> pyarrow.dataset.Dataset:
    """Return an opened table as a pyarrow dataset.

    The dataset uses pyarrow's own file systems. With delta-rs's, which is implemented in Python, pyarrow's threads call
    Python when they release a file; during interpreter shutdown this aborts the process.

    Args:
        table: Opened for `Use.READ`.
        folder: Folder of the table.
        file_pruning_predicate: See `DeltaTable.to_pyarrow_dataset`.
    """
    from pgsluice.lake.delta.bounds import with_trusted_bounds

    dataset = table.to_pyarrow_dataset(
        filesystem=filesystem(folder), file_pruning_predicate=file_pruning_predicate
    )
    return with_trusted_bounds(dataset, table)


def _first_line(error: Exception) -> str:
    """Return an error of delta-rs without the backtrace of its kernel."""
    return str(error).strip().partition("\n")[0]


def _unsupported(table: DeltaTable, use: Use) -> list[str]:
    protocol, definition = table.protocol(), _definition(table)
    reader, writer = int(protocol.min_reader_version), int(protocol.min_writer_version)
    found = {
        name
        for name, feature in _FEATURES.items()
        if use not in feature.allows and feature.is_used(definition)
    }
    if reader > _READER_VERSION_MAX:
        found.add(f"reader version {reader}")
    if reader >= _READER_VERSION_LISTED:
        found |= set(protocol.reader_features or ()) - set(_FEATURES)
    if use is Use.READ:
        return sorted(found)
    refuses_commits = writer == _WRITER_VERSION_REFUSED and use is not Use.VACUUM
    if writer > _WRITER_VERSION_MAX or refuses_commits:
        found.add(f"writer version {writer}")
    if writer >= _WRITER_VERSION_LISTED:
        found |= set(protocol.writer_features or ()) - set(_FEATURES)
    found |= {
        f"{name} = {value}"
        for name, value in definition.properties.items()
        if name.startswith("delta.")
        and _OFF.get(name) != value.strip().lower()
        and not any(fnmatchcase(name, pattern) for pattern in _PROPERTIES)
    }
    return sorted(found)


def _definition(table: DeltaTable) -> _Definition:
    columns = frozenset(_metadata_keys(json.loads(table.schema().to_json())))
    return _Definition(dict(table.metadata().configuration), columns)


def _metadata_keys(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for part in schema:
            yield from _metadata_keys(part)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key == "metadata":
                yield from value
            else:
                yield from _metadata_keys(value)
