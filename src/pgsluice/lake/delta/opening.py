"""Delta tables: what of the format is implemented here, operation by operation.

A table of another tool may use features of Delta that its Parquet files alone do not show, or that demand more of a
writer than adding files. Whatever is not listed here is refused. Features are found in three places: the protocol's
lists of features, its version numbers, which imply features, and the properties and columns that put them to use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pgsluice.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow.dataset
    from deltalake import DeltaTable


class Use(Enum):
    """Use of a table; the value completes the sentence "pgsluice cannot …"."""

    READ = "read it"
    APPEND = "append to it"
    COMPACT = "compact it"
    VACUUM = "remove its old files"
    MERGE = "change its rows"  # by delta-rs: merge, delete, overwrite
    REPLACE = "replace its files"  # by our own commits, with other rows


@dataclass(frozen=True, slots=True)
class _Definition:
    """The part of a table's metadata that features are put to use by."""

    properties: Mapping[str, str]
    columns: frozenset[str]  # the keys of all columns' metadata, nested ones included


@dataclass(frozen=True, slots=True)
class _Feature:
    """One feature of Delta.

    Attributes:
        allows: What can be done to a table that uses it.
        is_used: True if a table uses it: protocols list features that nothing in the table uses.
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
    # Commits of ours that change rows take out files.
    "appendOnly": _Feature(
        _ALL - {Use.MERGE, Use.REPLACE}, _by_property("delta.appendOnly", "false")
    ),
    # Nothing here evaluates conditions or computes columns. A compaction keeps values that were checked before.
    "invariants": _Feature(_ROWS_STAY, _by_column("delta.invariants")),
    "checkConstraints": _Feature(_ROWS_STAY, _has_constraint),
    "generatedColumns": _Feature(_ROWS_STAY, _by_column("delta.generationExpression")),
    # delta-rs refuses each commit to such a table.
    "identityColumns": _Feature(
        frozenset({Use.READ, Use.VACUUM}), _by_column("delta.identity.start")
    ),
    # An append needs no change files, a compaction says that it changes nothing, and delta-rs writes them for a merge.
    "changeDataFeed": _Feature(
        _ALL - {Use.REPLACE}, _by_property("delta.enableChangeDataFeed", "false")
    ),
    # The columns in the files have other names than the table's.
    "columnMapping": _Feature(frozenset(), _by_property("delta.columnMapping.mode", "none")),
    "timestampNtz": _Feature(_ALL, lambda _table: False),
    # Asks for what is done here anyway: to look at the protocol before a vacuum.
    "vacuumProtocolCheck": _Feature(_ALL, lambda _table: False),
}
_READER_VERSION_MAX, _WRITER_VERSION_MAX = 3, 7
# The first version that lists features instead of implying them.
_READER_VERSION_LISTED, _WRITER_VERSION_LISTED = 3, 7
# delta-rs commits to no table of this version: it stands for identity columns, used or not.
_WRITER_VERSION_REFUSED = 6
# Properties that leave the meaning of files and commits as it is, or that belong to a feature above.
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
# Properties that switch something off, and may stand in a table that uses nothing of it.
_OFF = {
    "delta.checkpointPolicy": "classic",
    "delta.enableDeletionVectors": "false",
    "delta.enableIcebergCompatV1": "false",
    "delta.enableIcebergCompatV2": "false",
    "delta.enableInCommitTimestamps": "false",
    "delta.enableRowTracking": "false",
    "delta.enableTypeWidening": "false",
}


def is_delta(folder: str | Path) -> bool:
    """True if there is a Delta table in a folder."""
    from deltalake import DeltaTable

    return bool(DeltaTable.is_deltatable(str(folder)))


def open_delta(folder: str | Path, use: Use, *, version: int | None = None) -> DeltaTable:
    """Open the Delta table in a folder for a use.

    Args:
        folder: The table's.
        use: What is to be done to it.
        version: The newest when None.

    Raises:
        ConfigurationError: There is no table or no such version, or it uses what is not implemented for this.
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
        raise ConfigurationError(
            f"the lake table in {folder} cannot be opened: {' '.join(str(error).split())}; open it with the "
            "tool that wrote it"
        ) from None
    return require_delta(table, folder, use)


def require_delta(table: DeltaTable, folder: str | Path, use: Use) -> DeltaTable:
    """Refuse a table that uses what is not implemented here for a use; the same table otherwise.

    Raises:
        ConfigurationError: It uses that; features and properties are named.
    """
    found = _unsupported(table, use)
    if found:
        raise ConfigurationError(
            f"the lake table in {folder} uses {', '.join(found)}: pgsluice cannot {use.value}; use the tool that "
            "made it, or copy its rows into a table without"
        )
    return table


def local_path(path: str, folder: str | Path) -> str:
    """Return the path of a table's file as on the disk, relative to the table's folder.

    Raises:
        ConfigurationError: The file is elsewhere, as in a shallow clone.
    """
    if "://" in path or path.startswith(("/", "file:")):
        raise ConfigurationError(
            f"the lake table in {folder} has files in another place, such as {path}; copy its rows into a table "
            "of its own"
        )
    return unquote(path)  # Delta's log has URLs


def folder_of(table: DeltaTable) -> Path:
    """Return the folder of an opened table as on the disk; delta-rs gives its URL."""
    return Path(unquote(table.table_uri.removeprefix("file://")))


def open_dataset(lake: str | Path, *, version: int | None = None) -> pyarrow.dataset.Dataset:
    """Open a Delta table as a dataset of pyarrow's, without Spark and Java.

    Args:
        lake: The table's folder.
        version: The newest when None.

    Raises:
        ConfigurationError: There is no table or no such version, or it uses what its files alone do not show.
    """
    folder = Path(str(lake).removeprefix("file://")).expanduser().absolute()
    return dataset_of(open_delta(folder, Use.READ, version=version), folder)


def dataset_of(
    table: DeltaTable, folder: Path, *, file_pruning_predicate: Any = None
) -> pyarrow.dataset.Dataset:
    """Return an opened table as a dataset of pyarrow's.

    pyarrow reads through its own file system. Through delta-rs's, which is implemented in Python, its threads call
    Python when they release a file, and if the interpreter is ending by then, the process aborts.

    Args:
        table: Opened for `Use.READ`.
        folder: Its folder, absolute.
        file_pruning_predicate: See `DeltaTable.to_pyarrow_dataset`.
    """
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    return table.to_pyarrow_dataset(
        filesystem=SubTreeFileSystem(str(folder), LocalFileSystem()),
        file_pruning_predicate=file_pruning_predicate,
    )


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
