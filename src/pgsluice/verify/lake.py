"""A table of the lake, read with pyarrow, or pyiceberg, alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pgsluice.errors import ConfigurationError
from pgsluice.extras import require_packages
from pgsluice.lake.delta.opening import Use, dataset_of, open_delta
from pgsluice.lake.file_errors import plain_errors
from pgsluice.lake.iceberg.features import require_iceberg

if TYPE_CHECKING:
    import pyarrow as pa

# Rows read at a time. Messages may be long, and a few batches are held at once.
_BATCH_ROWS = 8_192
_ICEBERG = "iceberg:"


class Lake(Protocol):
    """A table as one of its versions has it; what is committed later is not read.

    Attributes:
        name: Where it is.
        version: The version.
        types: The columns in order, each with its type of Arrow.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def types(self) -> Mapping[str, pa.DataType]: ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows in no order, some thousand at a time."""


def open_lake(place: str | Path) -> Lake:
    """Open a table at its newest version: a folder's, or `iceberg:catalogue/namespace.table`.

    Raises:
        MissingExtraError: A package that reads it is not installed.
        ConfigurationError: There is no table, or it uses what pyarrow cannot read.
    """
    with plain_errors(f"the lake table in {place}"):
        if str(place).startswith(_ICEBERG):
            return _open_iceberg(str(place))
        return _open_delta(Path(str(place).removeprefix("file://")).expanduser().absolute())


def rows_of(
    lake: Lake, columns: Sequence[str], *, where: tuple[str, str | bool] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a table.

    Args:
        lake: The table.
        columns: Which columns, and maybe more.
        where: A column and what it must be; null is like False.
    """
    import pyarrow.compute as pc

    if where is None:
        yield from lake.batches(columns)
        return
    name, value = where
    # Not as a filter of the reader: that leaves out whole files by their statistics, which may be wrong too.
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
        # One file and one batch ahead: how much is held must not grow with the machine.
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
            return  # without a snapshot there is nothing in it
        scan = self.table.scan(selected_fields=tuple(columns), snapshot_id=self.version)
        for batch in scan.to_arrow_batch_reader():
            for at in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.slice(at, _BATCH_ROWS)


def _open_delta(folder: Path) -> _Delta:
    require_packages("reading the lake needs", ("pyarrow", "deltalake"), "verify")
    table = open_delta(folder, Use.READ)
    return _Delta(str(folder), table.version(), dataset_of(table, folder))


def _open_iceberg(place: str) -> _Iceberg:
    require_packages("reading the lake needs", ("pyarrow", "pyiceberg", "sqlalchemy"), "iceberg")
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.utils.config import Config
    from sqlalchemy.exc import SQLAlchemyError

    name, _, identifier = place.removeprefix(_ICEBERG).partition("/")
    settings = Config().get_catalog_config(name)
    if not settings:
        raise ConfigurationError(
            f"there is no catalogue for the lake table {place}; set PYICEBERG_CATALOG__{name.upper()}__URI, or "
            "write it into .pyiceberg.yaml"
        )
    try:
        catalog = load_catalog(name, **{str(key): str(value) for key, value in settings.items()})
        try:
            table = catalog.load_table(identifier)
        finally:
            catalog.close()
    except NoSuchTableError:
        raise ConfigurationError(
            f"there is no lake table {place}; run a pipeline into it first"
        ) from None
    except SQLAlchemyError as error:
        # Its text may hold the catalogue's URL, and that a password.
        raise ConfigurationError(
            f"the catalogue of the lake table {place} cannot be read ({type(error).__name__}); check its URI"
        ) from None
    require_iceberg(table, place)
    snapshot = table.current_snapshot()
    return _Iceberg(place, -1 if snapshot is None else snapshot.snapshot_id, table)
