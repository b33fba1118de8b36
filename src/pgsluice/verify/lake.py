"""Read lake tables with only pyarrow or pyiceberg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pgsluice.errors import ConfigurationError
from pgsluice.extras import require_packages
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.lake.delta.opening import Use, dataset_of, open_delta
from pgsluice.lake.file_errors import plain_errors
from pgsluice.lake.storage import Folder

if TYPE_CHECKING:
    import pyarrow as pa

# Rows per batch; messages may be long, and memory holds a few batches.
_BATCH_ROWS = 8_192


class Lake(Protocol):
    """Lake table at a fixed version; later commits are not read.

    Attributes:
        name: Folder or address.
        version: Table version.
        types: Columns in order with their Arrow types.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def types(self) -> Mapping[str, pa.DataType]: ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows in batches, unordered."""


def open_lake(place: str | Path) -> Lake:
    """Open the newest version of the table in a folder or at `iceberg:catalogue/namespace.table`.

    Raises:
        MissingExtraError: A package required to read it is not installed.
        ConfigurationError: The table does not exist, or it uses an unsupported feature.
    """
    with plain_errors(f"the lake table in {place}"):
        address = parse(place)
        return (
            _open_iceberg(address) if isinstance(address, IcebergAddress) else _open_delta(address)
        )


def rows_of(
    lake: Lake, columns: Sequence[str], *, where: tuple[str, str | bool] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a table.

    Args:
        lake: The table.
        columns: Columns to read; batches may have more.
        where: A column and its required value; null counts as False.
    """
    import pyarrow.compute as pc

    if where is None:
        yield from lake.batches(columns)
        return
    name, value = where
    # Not pushed down: the reader would skip files by their statistics, which may be wrong, too.
    for batch in lake.batches([*columns, name]):
        yield batch.filter(pc.fill_null(pc.equal(batch.column(name), value), value is False))


@dataclass(frozen=True)
class _Delta:
    name: str
    version: int
    dataset: Any

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        return {field.name: field.type for field in self.dataset.schema}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # Limited read-ahead, so that memory use does not depend on the number of cores.
        yield from self.dataset.to_batches(
            columns=list(columns), batch_size=_BATCH_ROWS, batch_readahead=1, fragment_readahead=1
        )


@dataclass(frozen=True)
class _Iceberg:
    name: str
    version: int
    table: Any

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        return {field.name: field.type for field in self.table.schema().as_arrow()}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self.version < 0:
            return  # a table without a snapshot is empty
        scan = self.table.scan(selected_fields=tuple(columns), snapshot_id=self.version)
        for batch in scan.to_arrow_batch_reader():
            for at in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.slice(at, _BATCH_ROWS)


def require_lake_packages() -> None:
    """Raise MissingExtraError if a package that reads the lake is not installed."""
    require_packages("reading the lake needs", ("pyarrow", "deltalake"), "verify")


def _open_delta(folder: Folder) -> _Delta:
    require_lake_packages()
    table = open_delta(folder, Use.READ)
    return _Delta(str(folder), table.version(), dataset_of(table, folder))


def _open_iceberg(address: IcebergAddress) -> _Iceberg:
    from pgsluice.lake.iceberg.catalog import load_table, opened_catalog

    with opened_catalog(address.catalog) as catalog:
        table = load_table(catalog, address)
    if table is None:
        raise ConfigurationError(f"there is no lake table {address}; run a pipeline into it first")
    snapshot = table.current_snapshot()
    return _Iceberg(str(address), -1 if snapshot is None else snapshot.snapshot_id, table)
