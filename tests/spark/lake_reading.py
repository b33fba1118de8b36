"""Independent readers of lake tables, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

from pgsluice.lake.iceberg.catalog import opened_catalog

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

ICEBERG = "iceberg:"


def lake_table(lake: Path | str) -> pa.Table:
    if str(lake).startswith(ICEBERG):
        return iceberg_rows(str(lake))
    table = DeltaTable(str(lake))
    if "://" in str(lake):
        return delta_rs_rows(table)
    files = [Path(lake) / uri.removeprefix(table.table_uri[7:]) for uri in table.file_uris()]
    return pa.concat_tables(pq.read_table(file, partitioning=None) for file in files)


def delta_rs_rows(table: DeltaTable) -> pa.Table:
    """Return the rows as delta-rs reads them, without pyarrow's file systems."""
    found = QueryBuilder().register("rows", table).execute("select * from rows").read_all()
    return pa.table(found)


def lake_column(lake: Path | str, name: str) -> list:
    return sorted(lake_table(lake).column(name).to_pylist()) if has_rows(lake) else []


def has_rows(lake: Path | str) -> bool:
    if str(lake).startswith(ICEBERG):
        return iceberg_rows(str(lake)).num_rows > 0
    return bool(DeltaTable(str(lake)).file_uris())


def exists(lake: Path | str) -> bool:
    if not str(lake).startswith(ICEBERG):
        return DeltaTable.is_deltatable(str(lake))
    with _catalog(str(lake)) as (catalog, table):
        return catalog.table_exists(table)


def iceberg_rows(address: str) -> pa.Table:
    with _catalog(address) as (catalog, table):
        return catalog.load_table(table).scan().to_arrow()


@contextmanager
def _catalog(address: str) -> Iterator[tuple[Catalog, str]]:
    name, _, table = address.removeprefix(ICEBERG).partition("/")
    with opened_catalog(name) as catalog:
        yield catalog, table
